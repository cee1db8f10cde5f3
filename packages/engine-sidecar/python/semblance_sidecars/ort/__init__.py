"""Runs the owner's ONNX models by onnxruntime for Python. See docs/guide/engine-author/onnx-python.md."""
