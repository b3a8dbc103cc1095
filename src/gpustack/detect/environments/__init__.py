"""Python environments: what of NVIDIA and of frameworks is in each, and what is wrong there."""
