"""Models as files that other programs run: ONNX, a Python module, SQL."""
