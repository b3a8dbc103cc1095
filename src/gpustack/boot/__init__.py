"""The driver for this boot: an image carries several sets, and the GPUs decide which is installed."""
