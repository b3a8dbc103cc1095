"""What a machine is: evidence gathered from files and NVML, parsed into a Host by pure functions."""
