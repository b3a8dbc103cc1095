"""Triton Inference Server: its protocols, its model configuration, and its model repository."""
