"""What is known of faults, one module an area: the lines that give each away, why it happens, what mends it."""
