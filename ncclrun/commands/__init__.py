"""One file a verb; values and events out, nothing printed."""
