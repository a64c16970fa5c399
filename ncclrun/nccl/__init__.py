"""Pure knowledge of NCCL: its variables and its configuration files."""
