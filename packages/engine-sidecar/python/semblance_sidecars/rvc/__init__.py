"""Speaks with voices of RVC by onnxruntime. See docs/guide/engine-author/rvc-python.md."""
