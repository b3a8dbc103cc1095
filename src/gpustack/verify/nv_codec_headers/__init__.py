"""nv-codec-headers: the headers against the driver, and a program that compiles with them."""
