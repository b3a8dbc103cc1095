"""From matrix files to facts: read, compile, look up, check."""
