"""GPUDirect Storage: its version against driver and GPUs, its kernel module, and what its own check says."""
