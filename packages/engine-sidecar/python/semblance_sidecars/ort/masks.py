"""Where a face is pasted. The outline of a face without a mesh is not known, so `oval` is the inside of its crop."""

import math

import cv2
import numpy as np

from .geometry import Mask, Transform, blur, sample, smoothstep

# Width of the face on the finest grid, in grid pixels.
GRID = 200
# What is left out at the edge of a crop, and the width of the fade inside, as shares of its side: of `oval`, and of `box`.
OVAL, BOX = (0.08, 0.12), (0.0, 0.15)
# Where the fade at the edge of a drawn crop begins and ends.
EDGE = (0.005, 0.05)
SOFT = 0.01
# Skin, brows, eyes, glasses, nose, mouth and lips among the classes of a parser.
FACE_CLASSES = (1, 2, 3, 4, 5, 6, 10, 11, 12, 13)


def box_mask(transform: Transform, size: int, edge) -> Mask:
    """Returns the inside of a crop without its edge."""
    corners = [transform.to_picture(x, y) for x in (0, size) for y in (0, size)]
    scale = max(1.0, transform.scale * size / GRID)
    x, y = (math.floor(min(corner[i] for corner in corners)) for i in (0, 1))
    width, height = (math.ceil((max(corner[i] for corner in corners) - start) / scale) for i, start in ((0, x), (1, y)))
    mask = Mask(x, y, scale, np.zeros((height, width), np.float32))
    margin, feather = edge
    kept = lambda t: smoothstep(margin, margin + feather, np.minimum(t, 1 - t))  # noqa: E731
    u, v = mask.in_crop(transform)
    return mask.with_share(kept(u / size) * kept(v / size))


def within_edge(mask: Mask, transform: Transform, side: int) -> Mask:
    """Fades a mask at the edge of a crop, because there is no new face beyond it."""
    x, y = mask.in_crop(transform)
    depth = np.minimum(np.minimum(x, y), np.minimum(side - x, side - y)) / side
    return mask.with_share(np.where(mask.share == 0, 0, mask.share * smoothstep(*EDGE, depth)))


def within_field(mask: Mask, transform: Transform, field: np.ndarray) -> Mask:
    """Restricts a mask to a field over a crop. Nothing is known about the picture beyond it."""
    height, width = field.shape
    x, y = mask.in_crop(transform)
    beyond = (x < 0) | (y < 0) | (x > width) | (y > height)
    return mask.with_share(np.where(beyond | (mask.share == 0), 0, mask.share * sample(field, x, y)))


def sharpened_edge(field: np.ndarray) -> np.ndarray:
    """Makes a soft edge that lies inside: values up to a half become 0."""
    return 2 * np.maximum(0, blur(field, SOFT * field.shape[1]) - np.float32(0.5))


def occlusion_field(values: np.ndarray) -> np.ndarray:
    """Returns where nothing lies in front of a face, from what an occlusion network says."""
    return sharpened_edge(np.ascontiguousarray(np.clip(values[:, :, 0], 0, 1), np.float32))


def face_field(values: np.ndarray) -> np.ndarray:
    """Returns where a face's own parts are, from a parser's values for each class."""
    return sharpened_edge(np.isin(values.argmax(axis=0), FACE_CLASSES).astype(np.float32))


# Of a DeepFaceLab model: pixels by which its mask shrinks, and of its soft edge.
SHRINK, DFM_SOFT = 2, 6.25
CROSS = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.uint8)


def dfm_field(target: np.ndarray, face: np.ndarray) -> np.ndarray:
    """Returns where both faces of a DeepFaceLab model are, a little smaller, with a soft edge."""
    both = np.ascontiguousarray(np.clip(np.minimum(target, face)[:, :, 0], 0, 1), np.float32)
    return blur(cv2.erode(both, CROSS, iterations=SHRINK, borderType=cv2.BORDER_CONSTANT, borderValue=0), DFM_SOFT)
