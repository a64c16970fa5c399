"""Ways to a node and the conversation with it."""
