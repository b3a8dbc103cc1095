"""The driver: kernel module, libraries, contexts on every GPU, and the health of the boards."""
