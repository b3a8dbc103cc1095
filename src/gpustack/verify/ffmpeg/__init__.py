"""FFmpeg: the installed programs, what each supports, and what its failures mean."""
