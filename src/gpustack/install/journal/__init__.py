"""The journal of a run: its records, its file, and the history that they form."""
