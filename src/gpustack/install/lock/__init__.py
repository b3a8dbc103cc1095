"""The lock of an installation: its document, its making, and comparisons with it."""
