"""Models for other programs: ONNX and SQL."""
