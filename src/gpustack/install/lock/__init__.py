"""The lock of an installation: its document, how it is made, and what it is compared with."""
