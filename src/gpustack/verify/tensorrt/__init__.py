"""TensorRT: which libraries load, an engine built, run and reloaded, and what an engine file tells."""
