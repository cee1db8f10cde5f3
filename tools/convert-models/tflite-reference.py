"""Writes tflite-reference.json: outputs of each network of @mediapipe/pose for the astronaut, by Google's own runtime.

    python3 -m venv env && env/bin/pip install ai-edge-litert==2.3.0 pillow==12.0.0
    env/bin/python tools/convert-models/tflite-reference.py

The file has every n-th number of each output, and the mean absolute value of all of them.
"""

import json
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

HERE = Path(__file__).parent
ROOT = HERE.parents[3]
PACKAGE = ROOT / "node_modules" / "@mediapipe" / "pose"
NETWORKS = {
    "pose_detector": ("pose_solution_packed_assets.data", 224, -1),
    "pose_full": ("pose_landmark_full.tflite", 256, 0),
}
KEPT = 1000


def picture(side: int, low: float) -> np.ndarray:
    """Returns the astronaut, scaled to the nearest pixel, with values in [low, 1]."""
    whole = np.asarray(Image.open(ROOT / "media" / "astronaut.png").convert("RGB"))
    places = [int((i + 0.5) * 512 / side) for i in range(side)]
    unit = whole[places][:, places].astype(np.float32) / np.float32(255)
    return (unit * np.float32(1 - low) + np.float32(low))[None]


def outputs(file: str, side: int, low: float) -> dict[str, object]:
    network = Interpreter(model_path=str(PACKAGE / file), num_threads=1)
    network.allocate_tensors()
    network.set_tensor(network.get_input_details()[0]["index"], picture(side, low))
    network.invoke()
    result: dict[str, object] = {}
    for output in network.get_output_details():
        values = network.get_tensor(output["index"]).ravel().astype(np.float64)
        step = max(1, len(values) // KEPT)
        result[output["name"]] = {
            "size": float(f"{np.abs(values).mean():.7g}"),
            "step": step,
            "values": [float(f"{value:.7g}") for value in values[::step]],
        }
    return result


reference = {name: outputs(*network) for name, network in NETWORKS.items()}
(HERE / "tflite-reference.json").write_text(json.dumps(reference) + "\n")
