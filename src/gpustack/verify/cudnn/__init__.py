"""What programs built against cuDNN answered, and NVIDIA's own sample."""
