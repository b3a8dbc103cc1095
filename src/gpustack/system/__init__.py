"""Every contact with the outside: commands, files, downloads. Knows nothing about GPUs."""
