"""Writes the network of train.py as ONNX, with weights of 16 bits."""

import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save


def write_onnx(model, path):
    """Writes a model of convolutions, ReLU, nearest upsampling and concatenation. Batch norms are folded in."""
    nodes, initializers, names = [], [], {}

    def half(name, values):
        initializers.append(numpy_helper.from_array(values.astype(np.float16), f"{name}_16"))
        nodes.append(helper.make_node("Cast", [f"{name}_16"], [name], to=TensorProto.FLOAT))
        return name

    def source(layer):
        inputs = layer._inbound_nodes[0].input_tensors
        return [names[tensor._keras_history.operation.name] for tensor in inputs]

    norm_of = {}
    for layer in model.layers:
        if type(layer).__name__ == "BatchNormalization":
            norm_of[layer._inbound_nodes[0].input_tensors[0]._keras_history.operation.name] = layer
    initializers.append(numpy_helper.from_array(np.float32([1, 1, 2, 2]), "twice"))
    for layer in model.layers:
        kind, name = type(layer).__name__, layer.name
        if kind == "InputLayer":
            names[name] = "crop"
        elif kind in ("BatchNormalization", "ZeroPadding2D"):
            names[name] = source(layer)[0]
        elif kind == "Conv2D":
            kernel = layer.kernel.numpy().transpose(3, 2, 0, 1)
            bias = layer.bias.numpy() if layer.use_bias else np.zeros(len(kernel), np.float32)
            if name in norm_of:
                gamma, beta, mean, variance = (w.numpy() for w in norm_of[name].weights)
                gain = gamma / np.sqrt(variance + norm_of[name].epsilon)
                kernel, bias = kernel * gain[:, None, None, None], beta - mean * gain
            inputs = [source(layer)[0], half(f"{name}_w", kernel), half(f"{name}_b", bias)]
            attributes = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": list(layer.strides)}
            nodes.append(helper.make_node("Conv", inputs, [name], **attributes))
            names[name] = name
        elif kind == "ReLU":
            nodes.append(helper.make_node("Relu", source(layer), [name]))
            names[name] = name
        elif kind == "UpSampling2D":
            nodes.append(
                helper.make_node(
                    "Resize",
                    [source(layer)[0], "", "twice"],
                    [name],
                    mode="nearest",
                    coordinate_transformation_mode="asymmetric",
                    nearest_mode="floor",
                )
            )
            names[name] = name
        elif kind == "Concatenate":
            nodes.append(helper.make_node("Concat", source(layer), [name], axis=1))
            names[name] = name
        elif kind == "Lambda":
            nodes.append(helper.make_node("DepthToSpace", source(layer), ["logits"], blocksize=2, mode="DCR"))
            nodes.append(helper.make_node("Sigmoid", ["logits"], ["covered"]))
        else:
            raise ValueError(f"cannot export a layer of kind {kind}")
    size = model.input_shape[1]
    graph = helper.make_graph(
        nodes,
        "face_cover",
        [helper.make_tensor_value_info("crop", TensorProto.FLOAT, [1, 3, size, size])],
        [helper.make_tensor_value_info("covered", TensorProto.FLOAT, [1, 1, size, size])],
        initializers,
    )
    built = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(built)
    save(built, path)
