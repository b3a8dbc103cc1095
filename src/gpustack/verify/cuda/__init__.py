"""CUDA: the toolkit against driver, host compiler and GPUs, and programs that its nvcc builds."""
