"""Frameworks for Python in a package index: what is read inside their wheels, and the rows that it gives."""
