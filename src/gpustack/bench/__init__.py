"""Measurements without verdicts: FFmpeg's engines, TensorRT, and the GPU's own figures."""
