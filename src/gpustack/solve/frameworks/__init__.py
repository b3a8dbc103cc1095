"""Frameworks for Python: which builds there are, and which of them run on a host, with each other and with a stack."""
