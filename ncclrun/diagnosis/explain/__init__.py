"""From the lines of all logs to one diagnosis: what is known of faults (areas/), and which one is the cause."""
