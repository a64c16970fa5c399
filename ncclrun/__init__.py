"""ncclrun: one distributed training job on several machines, over SSH and nothing else."""
