"""DCGM: its version against the driver, and the GPUs that its host engine lists."""
