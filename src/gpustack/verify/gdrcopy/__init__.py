"""GDRCopy: its version against driver and GPUs, its kernel module, and its own tests."""
