"""Finds faces by the owner's detector, and refines their five points, as packages/engine-onnx/stages does."""

import math
from dataclasses import dataclass
from typing import Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .contracts import STRIDES
from .geometry import Transform, crop, planes, square
from .sessions import Session, no_numbers

MOST_OVERLAP = 0.4
# Smallest width in the network's input at which a face is still found, and smallest face that is searched for.
SMALLEST_IN_INPUT, SMALLEST_FACE = 24, 56
TILE_OVERLAP = 0.25
# Of the landmark model: side of its input, longer side of the face in it, and side of its heat maps.
SIDE, BOX, GRID = 256, 195, 64
# A face narrower than this share of the widest one is left alone.
SUITABLE = 0.6


@dataclass(frozen=True)
class Face:
    """A face in pixels of its picture. `five`: eyes, tip of the nose, corners of the mouth, the left ones of a picture first."""

    score: float
    x: float
    y: float
    width: float
    height: float
    five: np.ndarray

    def moved(self, left: float, top: float, zoom: float) -> "Face":
        place = (left + self.x * zoom, top + self.y * zoom, self.width * zoom, self.height * zoom)
        return Face(self.score, *place, self.five * zoom + (left, top))

    def overlap(self, other: "Face") -> float:
        width = min(self.x + self.width, other.x + other.width) - max(self.x, other.x)
        height = min(self.y + self.height, other.y + other.height) - max(self.y, other.y)
        if width <= 0 or height <= 0:
            return 0
        shared = width * height
        return shared / (self.width * self.height + other.width * other.height - shared)


def detect(detector: Session, picture: np.ndarray, step: Callable[[], None]) -> List[Face]:
    """Finds faces, first in the whole picture, then in overlapping parts, finer and finer."""
    height, width = picture.shape[:2]
    reduction = max(width, height) / detector.size
    finest = max(1, SMALLEST_FACE / SMALLEST_IN_INPUT)
    while True:
        found: List[Face] = []
        zoom = max(1, reduction)
        for top in _offsets(height, detector.size * zoom):
            for left in _offsets(width, detector.size * zoom):
                step()
                found += _detect_in(detector, picture, left, top, zoom)
        if found or reduction <= finest:
            return _suppressed(found)
        reduction = max(reduction / 2, finest)


def _detect_in(detector: Session, picture: np.ndarray, left: float, top: float, zoom: float) -> List[Face]:
    size = detector.size
    width = min(size, math.ceil((picture.shape[1] - left) / zoom))
    height = min(size, math.ceil((picture.shape[0] - top) / zoom))
    part = crop(picture, Transform(zoom, 0, left, top), width, height)
    image = np.zeros((size, size, 3), np.float32)
    image[:height, :width] = part
    entry = detector.entry
    outputs = detector.run({"input": planes(image, entry.contract)})
    flat = {name: values.reshape(values.shape[-2:]) for name, values in outputs.items()}
    faces = list(DECODERS[entry.contract.name](flat, size, entry.options["score"]))
    for face in faces:
        if not np.isfinite([face.score, face.x, face.y, face.width, face.height, *face.five.ravel()]).all():
            raise no_numbers(entry.name)
    return [face.moved(left, top, zoom) for face in faces]


Outputs = Dict[str, np.ndarray]


def _anchored(outputs: Outputs, size: int, least: float) -> Iterator[Face]:
    """Decodes distances from anchor points to the sides of the box and to the five points, in strides."""
    for stride in STRIDES:
        scores = outputs[f"score_{stride}"][:, 0]
        for i in np.flatnonzero(~(scores < least)):
            row, column = divmod(int(i) >> 1, size // stride)
            anchor = np.array([column, row], np.float64) * stride
            left, top, right, bottom = outputs[f"box_{stride}"][i].astype(np.float64) * stride
            five = anchor + outputs[f"points_{stride}"][i].reshape(5, 2).astype(np.float64) * stride
            yield Face(float(scores[i]), anchor[0] - left, anchor[1] - top, left + right, top + bottom, five)


def _columns(outputs: Outputs, _size: int, least: float) -> Iterator[Face]:
    """Decodes one column per candidate: centre and size of the box, score, then x, y and visibility of five points."""
    data = outputs["faces"].astype(np.float64)
    for i in np.flatnonzero(~(data[4] < least)):
        x, y, width, height, score = data[:5, i]
        yield Face(score, x - width / 2, y - height / 2, width, height, data[5:, i].reshape(5, 3)[:, :2].copy())


def _anchor_free(outputs: Outputs, size: int, least: float) -> Iterator[Face]:
    """Decodes one anchor per cell. The score is the mean of class and objectness; sizes are logarithms."""
    for stride in STRIDES:
        unit = lambda kind: np.clip(outputs[f"{kind}_{stride}"][:, 0].astype(np.float64), 0, 1)  # noqa: B023, E731
        scores = np.sqrt(unit("cls") * unit("obj"))
        for i in np.flatnonzero(~(scores < least)):
            row, column = divmod(int(i), size // stride)
            box = outputs[f"bbox_{stride}"][i].astype(np.float64)
            width, height = np.exp(box[2:]) * stride
            five = (outputs[f"kps_{stride}"][i].reshape(5, 2).astype(np.float64) + (column, row)) * stride
            x, y = (column + box[0]) * stride - width / 2, (row + box[1]) * stride - height / 2
            yield Face(float(scores[i]), x, y, width, height, five)


DECODERS = {"scrfd_2.5g": _anchored, "retinaface_10g": _anchored, "yoloface_8n": _columns, "yunet_2023_mar": _anchor_free}


def _suppressed(faces: Sequence[Face]) -> List[Face]:
    """Returns the best of each group of overlapping boxes, best first."""
    kept: List[Face] = []
    for face in sorted(faces, key=lambda each: -each.score):
        if all(face.overlap(other) <= MOST_OVERLAP for other in kept):
            kept.append(face)
    return kept


def _offsets(length: int, side: float) -> List[float]:
    """Returns the starts of parts of `side` that cover `length` evenly and overlap by a quarter."""
    if length <= side:
        return [0]
    count = math.ceil((length - TILE_OVERLAP * side) / (side * (1 - TILE_OVERLAP)))
    return [i * (length - side) / (count - 1) for i in range(count)]


def refine(landmarks: Session, picture: np.ndarray, face: Face) -> Optional[np.ndarray]:
    """Returns five points from 68, more precise than a detector's; None when the network is not certain."""
    right, left = face.five[0], face.five[1]
    angle = math.atan2(left[1] - right[1], left[0] - right[0])
    side = max(face.width, face.height) * SIDE / BOX
    transform = square((face.x + face.width / 2, face.y + face.height / 2), side, angle, SIDE)
    outputs = landmarks.run({"input": planes(crop(picture, transform, SIDE, SIDE), landmarks.entry.contract)})
    peaks = np.maximum(0, outputs["heatmaps"].reshape(68, -1).max(axis=1))
    if min(1, float(peaks.mean()) / 0.9) < landmarks.entry.options["score"]:
        return None
    points = outputs["points"][0, :, :2].astype(np.float64) * (SIDE / GRID)
    all68 = np.stack(transform.to_picture(points[:, 0], points[:, 1]), axis=1)
    return np.stack([all68[36:42].mean(axis=0), all68[42:48].mean(axis=0), all68[30], all68[48], all68[54]])


def prominent(faces: Sequence[Face], size: Tuple[int, int]) -> List[Face]:
    """Returns faces by their prominence: the width, and of equal ones the one nearer to the middle."""

    def prominence(face: Face) -> float:
        height, width = size
        off = np.hypot((face.five[2][0] - width / 2) / (width / 2), (face.five[2][1] - height / 2) / (height / 2))
        return face.width**2 * (1 - 0.4 * min(1, off / math.sqrt(2)))

    return sorted(faces, key=prominence, reverse=True)


def suitable(faces: Sequence[Face], known: Sequence[Face] = ()) -> List[Face]:
    """Returns those that are changed: none much narrower than the widest, unless the last frame had it."""
    widest = max((face.width for face in faces), default=0)
    kept = lambda face: SUITABLE * (0.75 if any(face.overlap(each) > 0.3 for each in known) else 1)  # noqa: E731
    return [face for face in faces if face.width >= kept(face) * widest]
