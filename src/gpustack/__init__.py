"""Provision and verify NVIDIA GPU software stacks."""

__version__ = "0.1.0"
