"""What a downloaded file is, read inside: its name proves nothing."""
