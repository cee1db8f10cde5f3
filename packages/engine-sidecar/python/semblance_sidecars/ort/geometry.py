"""Crops of faces and their way back, as packages/engine-onnx/vision has them. Coordinates are continuous: the centre of
pixel i is at i + 0.5."""

import math
from dataclasses import dataclass, replace
from typing import Sequence, Tuple

import cv2
import numpy as np

# Positions of eyes, tip of the nose and corners of the mouth in an aligned crop, as shares of its side.
TEMPLATES = {
    "arcface_112_v1": ((0.35473214, 0.45658929), (0.64526786, 0.45658929), (0.5, 0.61154464), (0.37913393, 0.776875), (0.62086607, 0.776875)),
    "arcface_112_v2": (
        *((0.34191607, 0.46157411), (0.65653393, 0.45983393), (0.500225, 0.64050536)),
        *((0.37097589, 0.82469196), (0.63151696, 0.82325089)),
    ),
    "arcface_128": (
        *((0.36167656, 0.40387734), (0.63696719, 0.40235469), (0.50019687, 0.56044219)),
        *((0.38710391, 0.72160547), (0.61507734, 0.72034453)),
    ),
    "dfl_whole_face": (
        *((0.35342266, 0.39285716), (0.62797622, 0.39285716), (0.48660713, 0.5401786)),
        *((0.38839287, 0.68750011), (0.59821427, 0.68750011)),
    ),
    "ffhq_512": (
        *((0.37691676, 0.46864664), (0.62285697, 0.46912813), (0.50123859, 0.61331904)),
        *((0.39308822, 0.725411), (0.61150205, 0.72490465)),
    ),
    "mtcnn_512": (
        *((0.36562865, 0.46733799), (0.63305391, 0.46585885), (0.50019127, 0.61942959)),
        *((0.39032951, 0.77598822), (0.61178945, 0.77476328)),
    ),
}
# Most points of a crop that one of its pixels, or of a picture, is averaged from, along each axis.
MOST_TAPS_IN, MOST_TAPS_BACK = 16, 8


@dataclass(frozen=True)
class Transform:
    """Maps crop pixels to picture pixels. `scale`: picture pixels per crop pixel; `angle`: clockwise, in radians."""

    scale: float
    angle: float
    x: float
    y: float

    def to_picture(self, x, y):
        cos, sin = math.cos(self.angle) * self.scale, math.sin(self.angle) * self.scale
        return self.x + cos * x - sin * y, self.y + sin * x + cos * y

    def to_crop(self, x, y):
        cos, sin = math.cos(self.angle) / self.scale, math.sin(self.angle) / self.scale
        dx, dy = x - self.x, y - self.y
        return cos * dx + sin * dy, cos * dy - sin * dx


def square(center: Tuple[float, float], side: float, angle: float, size: int) -> Transform:
    """Returns the crop of `size`² pixels that shows the square of `side` around a centre."""
    scale = side / size
    cos, sin, half = math.cos(angle) * scale, math.sin(angle) * scale, size / 2
    return Transform(scale, angle, center[0] - (cos - sin) * half, center[1] - (sin + cos) * half)


def align(five: np.ndarray, template: str, size: int) -> Transform:
    """Returns the crop in which five points match a template: the least-squares similarity (Umeyama 1991)."""
    goal = np.array(TEMPLATES[template]) * size
    start, to = five.mean(axis=0), goal.mean(axis=0)
    p, q = five - start, goal - to
    dot, cross = float((p * q).sum()), float((p[:, 0] * q[:, 1] - p[:, 1] * q[:, 0]).sum())
    angle, scale = -math.atan2(cross, dot), float((p * p).sum()) / math.hypot(dot, cross)
    cos, sin = math.cos(angle) * scale, math.sin(angle) * scale
    return Transform(scale, angle, start[0] - (cos * to[0] - sin * to[1]), start[1] - (sin * to[0] + cos * to[1]))


def _matrix(transform: Transform, taps: int) -> np.ndarray:
    """Returns the map from pixels of a crop, `taps` times as fine, to pixels of its picture, as OpenCV takes it."""
    cos, sin = math.cos(transform.angle) * transform.scale / taps, math.sin(transform.angle) * transform.scale / taps
    x, y = transform.x + (cos - sin) * 0.5 - 0.5, transform.y + (sin + cos) * 0.5 - 0.5
    return np.array([[cos, -sin, x], [sin, cos, y]])


def _averaged(image: np.ndarray, width: int, height: int, taps: int) -> np.ndarray:
    if taps == 1:
        return image
    return image.reshape(height, taps, width, taps, -1).mean(axis=(1, 3), dtype=np.float32)


def crop(picture: np.ndarray, transform: Transform, width: int, height: int) -> np.ndarray:
    """Returns part of a picture as floats, 0 to 255. Shrinking averages; outside the picture the edge repeats."""
    part, transform = _around(picture, transform, width, height)
    taps = min(MOST_TAPS_IN, max(1, round(transform.scale / 1.2)))
    how = (cv2.INTER_LINEAR if taps == 1 else cv2.INTER_NEAREST) | cv2.WARP_INVERSE_MAP
    # Interpolated in floats, because OpenCV rounds what it interpolates to the type of its input.
    source = part.astype(np.float32) if taps == 1 else part
    size = (width * taps, height * taps)
    fine = cv2.warpAffine(source, _matrix(transform, taps), size, flags=how, borderMode=cv2.BORDER_REPLICATE)
    return _averaged(fine, width, height, taps).astype(np.float32, copy=False)


def _around(picture: np.ndarray, transform: Transform, width: int, height: int) -> Tuple[np.ndarray, Transform]:
    """Returns the part of a picture that a crop needs, and the crop's transform in it."""
    corners = np.array([transform.to_picture(x, y) for x in (0, width) for y in (0, height)])
    rows, columns = picture.shape[:2]
    left, top = (int(np.clip(math.floor(least) - 2, 0, most - 1)) for least, most in zip(corners.min(axis=0), (columns, rows)))
    right, bottom = (
        int(np.clip(math.ceil(last) + 2, start + 1, most))
        for last, start, most in zip(corners.max(axis=0), (left, top), (columns, rows))
    )
    return picture[top:bottom, left:right, :3], replace(transform, x=transform.x - left, y=transform.y - top)


def resized(image: np.ndarray, width: int, height: int) -> np.ndarray:
    """Returns an image in another size. Enlarging interpolates, shrinking averages."""
    if image.shape[:2] == (height, width):
        return image
    down_x, down_y = image.shape[1] / width, image.shape[0] / height
    taps_x, taps_y = max(1, math.ceil(down_x)), max(1, math.ceil(down_y))
    x = (np.arange(width * taps_x, dtype=np.float32) + 0.5) * np.float32(down_x / taps_x) - 0.5
    y = (np.arange(height * taps_y, dtype=np.float32) + 0.5) * np.float32(down_y / taps_y) - 0.5
    fine = cv2.remap(image, *np.meshgrid(x, y), cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return fine.reshape(height, taps_y, width, taps_x, -1).mean(axis=(1, 3), dtype=np.float32)


def planes(image: np.ndarray, contract) -> np.ndarray:
    """Returns an image, 0 to 255, as the normalised planes that a network expects."""
    ordered = image if contract.order == "rgb" else image[:, :, ::-1]
    deviation = np.array(contract.deviation, np.float32)
    normalised = ordered.astype(np.float32) / (255 * deviation) - np.array(contract.mean, np.float32) / deviation
    return np.ascontiguousarray(normalised.transpose(2, 0, 1)[None], np.float32)


def from_planes(values: np.ndarray, contract) -> np.ndarray:
    """Returns planes as an image, 0 to 255."""
    image = values.transpose(1, 2, 0)
    if contract.denormalise:
        image = image * np.array(contract.deviation, np.float32) + np.array(contract.mean, np.float32)
    image = np.clip(image * np.float32(255), 0, 255)
    return np.ascontiguousarray(image if contract.order == "rgb" else image[:, :, ::-1], np.float32)


def interleaved(image: np.ndarray, contract) -> np.ndarray:
    """Returns an image as samples with the channels last, 0 to 1."""
    ordered = image if contract.order == "rgb" else image[:, :, ::-1]
    return np.ascontiguousarray(ordered[None] / np.float32(255), np.float32)


def from_interleaved(values: np.ndarray, contract) -> np.ndarray:
    image = np.clip(values * np.float32(255), 0, 255)
    return np.ascontiguousarray(image if contract.order == "rgb" else image[:, :, ::-1], np.float32)


def split_pixels(image: np.ndarray, factor: int) -> Sequence[np.ndarray]:
    """Splits an image into factor² interleaved ones ("pixel boost")."""
    return [np.ascontiguousarray(image[row::factor, column::factor]) for row in range(factor) for column in range(factor)]


def join_pixels(parts: Sequence[np.ndarray]) -> np.ndarray:
    factor = math.isqrt(len(parts))
    height, width = parts[0].shape[:2]
    out = np.empty((height * factor, width * factor, 3), np.float32)
    for number, part in enumerate(parts):
        out[number // factor :: factor, number % factor :: factor] = part
    return out


def smoothstep(low: float, high: float, value: np.ndarray) -> np.ndarray:
    t = np.clip((value - low) / (high - low), 0, 1)
    return t * t * (3 - 2 * t)


def blur(field: np.ndarray, sigma: float) -> np.ndarray:
    """Approximates a Gaussian by two box passes (Wells 1986); the edge repeats."""
    if sigma < 0.3:
        return field
    side = 2 * max(1, round((math.sqrt(6 * sigma * sigma + 1) - 1) / 2)) + 1
    once = cv2.blur(field, (side, side), borderType=cv2.BORDER_REPLICATE)
    return cv2.blur(once, (side, side), borderType=cv2.BORDER_REPLICATE)


def sample(field: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Interpolates a field at places; the edge repeats."""
    at = (np.asarray(x, np.float32) - np.float32(0.5), np.asarray(y, np.float32) - np.float32(0.5))
    return cv2.remap(field, *at, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@dataclass(frozen=True)
class Mask:
    """Share of each pixel that is replaced, on a grid that may be coarser than the picture."""

    x: float
    y: float
    # Picture pixels per grid pixel.
    scale: float
    share: np.ndarray

    def with_share(self, share: np.ndarray) -> "Mask":
        return replace(self, share=np.ascontiguousarray(share, np.float32))

    def in_crop(self, transform: Transform) -> Tuple[np.ndarray, np.ndarray]:
        """Returns where the centres of the grid lie in a crop."""
        height, width = self.share.shape
        x, y = np.meshgrid(self.x + (np.arange(width) + 0.5) * self.scale, self.y + (np.arange(height) + 0.5) * self.scale)
        return transform.to_crop(x, y)

    def at(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return sample(self.share, (x - self.x) / self.scale, (y - self.y) / self.scale)


def paste(picture: np.ndarray, image: np.ndarray, transform: Transform, mask: Mask, blend: float = 1) -> None:
    """Blends a crop in place into the picture that it was taken from. Pixels with a share of 0 are not written."""
    rows, columns = mask.share.shape
    left, top = max(0, math.floor(mask.x)), max(0, math.floor(mask.y))
    right = min(picture.shape[1], math.ceil(mask.x + columns * mask.scale))
    bottom = min(picture.shape[0], math.ceil(mask.y + rows * mask.scale))
    width, height = right - left, bottom - top
    if width <= 0 or height <= 0:
        return
    x, y = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
    share = blend * mask.at(x, y)
    if not (share > 0).any():
        return
    taps = min(MOST_TAPS_BACK, max(1, round(1 / transform.scale)))
    # From pixels of the region to pixels of the crop.
    start = transform.to_crop(left, top)
    back = Transform(1 / transform.scale, -transform.angle, *start)
    how = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    fine = cv2.warpAffine(image, _matrix(back, taps), (width * taps, height * taps), flags=how, borderMode=cv2.BORDER_REPLICATE)
    fresh = _averaged(fine, width, height, taps)
    old = picture[top:bottom, left:right, :3]
    mixed = np.floor(old + (fresh - old) * share[:, :, None] + 0.5)
    picture[top:bottom, left:right, :3] = np.where(share[:, :, None] > 0, np.clip(mixed, 0, 255), old).astype(np.uint8)
