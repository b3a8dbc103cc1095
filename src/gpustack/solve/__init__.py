"""The solver: which versions go together on a host, why, and if none do, the smallest reason why not. Pure."""
