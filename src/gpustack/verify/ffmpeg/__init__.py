"""What FFmpeg programs are there, what each can do, and what its failures mean."""
