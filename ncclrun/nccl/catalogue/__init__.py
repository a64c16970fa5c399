"""What is known of every variable that NCCL, its plugins, Gloo and torch read."""
