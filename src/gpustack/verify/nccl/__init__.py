"""NCCL: its library against CUDA, and an all-reduce over all GPUs."""
