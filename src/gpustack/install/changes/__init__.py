"""What a run changes in the file tree: seen, kept before, put back."""
