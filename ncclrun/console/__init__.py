"""What a person or a program sees: terminal, pipe, JSON lines."""
