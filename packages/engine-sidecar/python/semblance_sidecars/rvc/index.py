"""RVC's index: what the voice's own speaker said, by faiss."""

import os

import numpy as np

from ..ort.graph import ModelFault
from ..ort.opening import read_file

# Vectors that make the replacement of one, and frames of content at the end of a window that are replaced.
NEIGHBOURS, MIXED = 8, 8


class Index:
    def __init__(self, path: str, sha256: str, width: int):
        """Reads an index with features of this width. Raises ModelFault."""
        try:
            import faiss
        except ImportError:
            raise ModelFault("its index needs faiss: pip install faiss-cpu, or take the index out of the manifest") from None
        data = read_file(path, sha256)
        try:
            self._index = faiss.deserialize_index(np.frombuffer(data, np.uint8))
            count = self._index.ntotal
            # Approximate kinds of indexes give what they stored, as in RVC's pipeline.
            self._vectors = self._index.reconstruct_n(0, count) if count else np.zeros((0, self._index.d), np.float32)
        except (RuntimeError, AttributeError, AssertionError) as error:
            raise ModelFault(f"{os.path.basename(path)} is no index that faiss reads: {' '.join(str(error).split())[:200]}") from None
        if count == 0:
            raise ModelFault(f"{os.path.basename(path)} has no features: take the file `added_…`, not `trained_…`")
        if self._index.d != width:
            raise ModelFault(f"{os.path.basename(path)} has features of {self._index.d} numbers, and the voice needs {width}")

    def mixed(self, features: np.ndarray, rate: float) -> np.ndarray:
        """Returns features, frames × width, whose last ones are mixed with the mean of the nearest, by 1 / d⁴."""
        out = features.copy()
        last = np.ascontiguousarray(out[-MIXED:])
        squares, places = self._index.search(last, min(NEIGHBOURS, len(self._vectors)))
        there = places >= 0
        squares = np.where(there, np.maximum(squares, 0), np.inf).astype(np.float64)
        same = squares == 0
        # A vector that is the same as the content takes its place.
        weights = np.where(same.any(axis=1, keepdims=True), same, 1 / np.where(same, 1, squares) ** 2)
        sums = weights.sum(axis=1, keepdims=True)
        mean = (self._vectors[np.where(there, places, 0)] * (weights / np.where(sums == 0, 1, sums))[:, :, None]).sum(axis=1)
        found = sums > 0
        out[-MIXED:] = np.where(found, rate * mean + (1 - rate) * last, last)
        return out
