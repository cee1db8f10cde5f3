"""Puts the networks of train.py for objects and for frames of glasses into one file.

    python tools/train-face-cover/merge.py OBJECTS.onnx FRAMES.onnx OUT.onnx

Both read the input `crop`; the outputs are `covered` and `framed`.
"""

import sys

from onnx import checker, compose, helper, load, save


def main():
    objects, frames, out = sys.argv[1:]
    parts = [compose.add_prefix(load(path), name) for path, name in ((objects, "objects_"), (frames, "frames_"))]
    nodes, initializers = [], []
    for part, prefix, result in zip(parts, ("objects_", "frames_"), ("covered", "framed")):
        names = {f"{prefix}crop": "crop", f"{prefix}covered": result}
        for node in part.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]
            node.output[:] = [names.get(name, name) for name in node.output]
        nodes.extend(part.graph.node)
        initializers.extend(part.graph.initializer)
    [crop], outputs = parts[0].graph.input, [part.graph.output[0] for part in parts]
    crop.name, outputs[0].name, outputs[1].name = "crop", "covered", "framed"
    graph = helper.make_graph(nodes, "face_cover", [crop], outputs, initializers)
    merged = helper.make_model(graph, opset_imports=parts[0].opset_import, ir_version=parts[0].ir_version)
    checker.check_model(merged)
    save(merged, out)


if __name__ == "__main__":
    main()
