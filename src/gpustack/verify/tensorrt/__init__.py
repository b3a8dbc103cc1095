"""TensorRT: which libraries load, an engine built, run and reloaded, and the header of an engine file."""
