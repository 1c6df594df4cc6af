"""Exports of models for other programs: ONNX and SQL."""
