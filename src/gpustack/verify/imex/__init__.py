"""IMEX: its version against the driver, its channels, and the state of its domain."""
