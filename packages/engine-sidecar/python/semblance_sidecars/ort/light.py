"""Gives a drawn face the light of its picture, as packages/engine-onnx/vision/match-light.ts does."""

import math

import numpy as np

from .geometry import Mask, Transform, blur, sample, smoothstep

# Cells of the light grid across a crop.
CELLS = 64
# Widths of the neighbourhoods in which two lights are compared, as shares of the crop: inside a face, and at its edge.
REACH, EDGE_REACH = 0.1, 0.03
INSIDE = (0.5, 0.9)
# Levels that are added to both sides of a ratio, so that black is no infinite ratio.
FLOOR = 8
# Largest factor, and largest factor by which a place may differ from the whole face, as logarithms.
MOST, MOST_LOCAL = math.log(3), math.log(1.5)
PRIOR = 0.02


def matched_light(drawn: np.ndarray, base: np.ndarray, transform: Transform, mask: Mask, share: float) -> np.ndarray:
    """Returns a drawn crop, each colour times the smooth ratio of `base`, the crop as it was, to it."""
    height, width = drawn.shape[:2]
    cell = max(1, width // CELLS)
    across, down = math.ceil(width / cell), math.ceil(height / cell)
    x, y = np.meshgrid((np.arange(across) + 0.5) * cell, (np.arange(down) + 0.5) * cell)
    known = mask.at(*transform.to_picture(x, y))
    if known.sum() < 1e-3 or share == 0:
        return drawn
    u, v = np.meshgrid((np.arange(width) + 0.5) / cell, (np.arange(height) + 0.5) / cell)
    out = np.empty_like(drawn)
    for colour in range(3):
        ratio = np.log((_means(base, cell, colour) + FLOOR) / (_means(drawn, cell, colour) + FLOOR))
        gain = _gain(ratio.astype(np.float32), known)
        out[:, :, colour] = np.minimum(255, drawn[:, :, colour] * np.exp(share * sample(gain, u, v)))
    return out


def _means(image: np.ndarray, cell: int, colour: int) -> np.ndarray:
    rows = np.add.reduceat(image[:, :, colour], np.arange(0, image.shape[0], cell), axis=0, dtype=np.float64)
    sums = np.add.reduceat(rows, np.arange(0, image.shape[1], cell), axis=1)
    count = lambda length: np.minimum(cell, length - np.arange(0, length, cell))  # noqa: E731
    return sums / np.outer(count(image.shape[0]), count(image.shape[1]))


def _gain(ratio: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Returns the smooth logarithm of the gain."""
    sure = ratio[known > 0.5]
    used = np.sort(sure if sure.size else ratio[known > 0])
    whole = float(used[used.size // 2]) if used.size else 0.0
    weighted = np.clip(ratio - whole, -MOST_LOCAL, MOST_LOCAL) * known
    width = ratio.shape[1]
    wide, narrow = ((blur(weighted, reach * width), blur(known, reach * width)) for reach in (REACH, EDGE_REACH))
    inside = smoothstep(*INSIDE, wide[1])
    mean = lambda pair: pair[0] / (pair[1] + PRIOR)  # noqa: E731
    return np.clip(whole + inside * mean(wide) + (1 - inside) * mean(narrow), -MOST, MOST).astype(np.float32)
