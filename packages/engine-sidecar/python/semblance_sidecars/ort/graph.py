"""What a model's file says beside its tensors: weights elsewhere, and the emap of an inswapper."""

from typing import Iterator, Optional

import numpy as np
import onnx
from onnx import numpy_helper

from .contracts import EMBEDDING


class ModelFault(Exception):
    """A model does not fit its contract or its file. The message is for the owner."""


def parse(data: bytes) -> onnx.ModelProto:
    """Returns the graph of a file whose weights are all in it. Raises ModelFault."""
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise ModelFault(f"the file is no ONNX model: {' '.join(str(error).split())[:200]}") from None
    graphs = [model.graph, *model.functions]
    outside = next((tensor.name for graph in graphs for tensor in _tensors(graph) if tensor.data_location), None)
    if outside is not None:
        raise ModelFault(f"{outside}: its data lie in another file, which the hash does not cover; save the model as one file")
    return model


def _tensors(graph) -> Iterator[onnx.TensorProto]:
    """Yields every tensor of a graph or function, also those of constants and branches."""
    yield from getattr(graph, "initializer", ())
    for sparse in getattr(graph, "sparse_initializer", ()):
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)
            for below in (attribute.g, *attribute.graphs):
                if below.node or below.initializer:
                    yield from _tensors(below)


def emap_of(model: onnx.ModelProto) -> np.ndarray:
    """Returns the last initializer of an inswapper, which turns an embedding into its source. Raises ModelFault."""
    last: Optional[onnx.TensorProto] = model.graph.initializer[-1] if model.graph.initializer else None
    wanted = f"expected emap, float32 or float16 [{EMBEDDING}, {EMBEDDING}], as the last initializer of the graph"
    types = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    if last is None or last.data_type not in types or list(last.dims) != [EMBEDDING, EMBEDDING]:
        raise ModelFault(f"{wanted}, found {'none' if last is None else f'{last.name} {list(last.dims)}'}")
    try:
        return numpy_helper.to_array(last).astype(np.float32)
    except ValueError as error:
        raise ModelFault(f"{wanted}, found {last.name}, which cannot be read: {error}") from None
