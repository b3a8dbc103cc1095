"""What a run changes in the file tree: detected, kept before, restored."""
