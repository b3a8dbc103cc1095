"""Does this stack work, here and now, and if not, what mends it: checks, their runner, reports."""
