"""Checks of frameworks for Python, inside the environment's own interpreter."""
