"""Texts of faults that may be over at the next attempt."""

import re

# Of PyTorch, onnxruntime, CUDA, ROCm and the system.
MOMENTARY = re.compile(
    r"out of memory|OutOfMemoryError|Allocation on device|can't allocate memory|cannot allocate memory|ALLOC_FAILED"
    r"|Failed to allocate memory|CUDA error|CUDA failure|CUDA driver error|CUBLAS_STATUS_|CUBLAS failure|CUDNN_STATUS_"
    r"|CUDNN failure|cuDNN error|CUSOLVER_STATUS_|HIP error|AcceleratorError|No space left on device|Too many open files",
    re.IGNORECASE,
)
