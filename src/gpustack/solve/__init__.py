"""The solver: which versions are compatible on a host, why, and if none are, the smallest reason. Pure."""
