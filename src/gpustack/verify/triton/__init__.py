"""Triton: a running server, and one that is started here."""
