"""What is wrong with settings, judged by the catalogue and by how NCCL reads values."""
