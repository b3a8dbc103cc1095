"""cuDNN: its files against CUDA and driver, and programs that use it."""
