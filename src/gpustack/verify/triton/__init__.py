"""Asking a Triton server, and starting one of our own to ask."""
