"""Makes batches for train.py: faces with drawn, transplanted and random objects in front, in any light."""

import json

import numpy as np
import tensorflow as tf

SIDE = 128  # of the collected crops, in pixels
SIZE = 96  # of the network's input


def read_crops(folder, name):
    """Returns the crops of a set, uint8 [n, SIDE, SIDE, 4], and for each its portrait and its object."""
    data = np.fromfile(f"{folder}/{name}.bin", np.uint8)
    with open(f"{folder}/{name}.json", encoding="utf8") as lines:
        index = [json.loads(line) for line in lines]
    count = min(len(index), len(data) // (SIDE * SIDE * 4))
    return data[: count * SIDE * SIDE * 4].reshape(count, SIDE, SIDE, 4), index[:count]


def middle(crops):
    """Returns the middle of the crops as the network sees it, float32 [n, SIZE, SIZE, 4] in 0-1."""
    unmoved = np.zeros((len(crops), 5), np.float32)
    return warp(tf.constant(crops, tf.float32) / 255, unmoved)


def warp(crops, moves):
    """Returns SIZE-wide crops after a move: log-scale, turn in radians, shift in shares of the width, log-stretch."""
    zoom = tf.exp(moves[:, 0]) * (SIDE / 1.25 / SIZE)
    cos, sin = tf.cos(moves[:, 1]) * zoom, tf.sin(moves[:, 1]) * zoom
    x, y = moves[:, 2] * SIDE, moves[:, 3] * SIDE
    half, whole = (SIZE - 1) / 2, (SIDE - 1) / 2
    zero = tf.zeros_like(x)
    # Across the face, a stretch looks like a turn of the head.
    across = tf.exp(moves[:, 4])
    a, b = cos * across, sin * across
    matrix = tf.stack([a, -sin, whole + x - half * (a - sin), b, cos, whole + y - half * (b + cos), zero, zero], 1)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=crops,
        transforms=matrix,
        output_shape=[SIZE, SIZE],
        interpolation="BILINEAR",
        fill_mode="NEAREST",
        fill_value=0.0,
    )


def uniform(rng, n, low, high):
    return rng.uniform([n, 1, 1, 1], low, high)


def chance(rng, n, share):
    return tf.cast(rng.uniform([n, 1, 1, 1]) < share, tf.float32)


def random_moves(rng, n):
    return rng.uniform([n, 5], -1, 1) * [[0.12, 0.25, 0.04, 0.04, 0.2]]


def flip(rng, images):
    mirrored = chance(rng, tf.shape(images)[0], 0.5)
    return mirrored * images[:, :, ::-1] + (1 - mirrored) * images


def smooth_noise(rng, n, cells, channels=1):
    """Returns noise of one scale, about -1 to 1."""
    return tf.image.resize(rng.uniform([n, cells, cells, channels], -1, 1), [SIZE, SIZE], "bicubic")


def random_shapes(rng, n):
    """Returns masks of blobs, and of polygons that enter from a side."""
    mixed = smooth_noise(rng, n, 4) + 0.5 * smooth_noise(rng, n, 9)
    blob = tf.sigmoid((mixed - uniform(rng, n, 0.1, 0.7)) * uniform(rng, n, 8, 40))
    axis = tf.linspace(-1.0, 1.0, SIZE)
    x, y = axis[None, None, :, None], axis[None, :, None, None]
    polygon = tf.ones([n, SIZE, SIZE, 1])
    for _ in range(4):
        angle = uniform(rng, n, 0, 2 * np.pi)
        distance = x * tf.cos(angle) + y * tf.sin(angle) - uniform(rng, n, -0.15, 0.9)
        polygon *= tf.sigmoid(-distance * uniform(rng, n, 20, 60))
    bar = tf.sigmoid((uniform(rng, n, 0.08, 0.4) - tf.abs(y - uniform(rng, n, -0.9, 0.9))) * 40)
    kind = rng.uniform([n, 1, 1, 1])
    return tf.where(kind < 0.45, blob, tf.where(kind < 0.85, polygon, bar))


def random_surfaces(rng, n, faces, crops):
    """Returns surfaces: parts of other pictures, flat colours, stripes, and skin of the same face."""
    part = warp(crops, rng.uniform([n, 5], -1, 1) * [[1.0, 3.0, 0.5, 0.5, 0.3]] - [[0.7, 0, 0, 0, 0]])
    part = tf.clip_by_value(part * rng.uniform([n, 1, 1, 3], 0.4, 1.5), 0, 1)
    flat = rng.uniform([n, 1, 1, 3]) * tf.ones([n, SIZE, SIZE, 1])
    axis = tf.linspace(0.0, 1.0, SIZE)
    angle = uniform(rng, n, 0, np.pi)
    across = axis[None, None, :, None] * tf.cos(angle) + axis[None, :, None, None] * tf.sin(angle)
    wave = 0.5 + 0.5 * tf.sin(across * uniform(rng, n, 10, 120))
    striped = flat * (1 - wave) + rng.uniform([n, 1, 1, 3]) * wave
    # A hand has the colour of its face, and shades of its own.
    skin = tf.reduce_mean(faces[:, 40:60, 30:66], [1, 2], keepdims=True) * uniform(rng, n, 0.75, 1.15)
    skin = skin * tf.ones([n, SIZE, SIZE, 1])
    kind = rng.uniform([n, 1, 1, 1])
    surface = tf.where(kind < 0.4, part, tf.where(kind < 0.6, flat, tf.where(kind < 0.72, striped, skin)))
    shade = 1 + uniform(rng, n, 0, 0.4) * smooth_noise(rng, n, 4) + 0.1 * smooth_noise(rng, n, 16)
    return tf.clip_by_value(surface * shade, 0, 1)


def other_places(rng, images, masks, crops):
    """Puts half of the heads before parts of other pictures, because all portraits have a like background."""
    n = tf.shape(images)[0]
    axis = tf.linspace(-1.0, 1.0, SIZE)
    far = tf.sqrt((axis[None, None, :, None] / 0.62) ** 2 + (axis[None, :, None, None] / 0.8) ** 2)
    outside = tf.sigmoid((far - uniform(rng, n, 1.05, 1.5)) * uniform(rng, n, 15, 40)) * chance(rng, n, 0.5)
    place = random_surfaces(rng, n, images, crops)
    return images * (1 - outside) + place * outside, masks * (1 - outside)


def light_and_camera(rng, images):
    """Changes exposure, colour, contrast, shadow, sharpness and noise."""
    n = tf.shape(images)[0]
    axis = tf.linspace(-1.0, 1.0, SIZE)
    angle = uniform(rng, n, 0, 2 * np.pi)
    across = axis[None, None, :, None] * tf.cos(angle) + axis[None, :, None, None] * tf.sin(angle)
    side = tf.sigmoid((across - uniform(rng, n, -0.6, 0.6)) * uniform(rng, n, 2, 25))
    images *= 1 - chance(rng, n, 0.3) * uniform(rng, n, 0, 0.75) * side
    tint = tf.exp(chance(rng, n, 0.3) * rng.uniform([n, 1, 1, 3], -0.5, 0.5))
    images = tf.maximum(images, 1e-4) ** tf.exp(uniform(rng, n, -0.6, 0.6)) * uniform(rng, n, 0.45, 1.6) * tint
    grey = tf.reduce_mean(images, 3, keepdims=True)
    colour = tf.where(rng.uniform([n, 1, 1, 1]) < 0.25, 0.0, uniform(rng, n, 0.5, 1.4))
    images = grey + colour * (images - grey)
    soft = tf.nn.avg_pool2d(images, 3, 1, "SAME")
    softer = tf.nn.avg_pool2d(soft, 3, 1, "SAME")
    kind = rng.uniform([n, 1, 1, 1])
    images = tf.where(kind < 0.15, soft, tf.where(kind < 0.25, softer, images))
    images += rng.normal([n, SIZE, SIZE, 3]) * uniform(rng, n, 0, 0.06) * chance(rng, n, 0.5)
    return tf.clip_by_value(images, 0, 1)


def frame_label(masks):
    """Returns the label of clear glasses: their frame, grown by a pixel because it is hardly wider; glare is none."""
    share = tf.clip_by_value((masks - 0.25) / 0.35, 0, 1)
    return tf.nn.max_pool2d(share, 3, 1, "SAME")


class Batches:
    """Seeded batches of images, float32 [n, SIZE, SIZE, 3] in 0-1, and covered shares [n, SIZE, SIZE, 1]."""

    def __init__(self, crops, index, seed, frames):
        # Shares of drawn objects, of those of other faces, of random ones and of clear glasses; the rest is bare.
        shares = (0.25, 0.15, 0.2, 0.2) if frames else (0.3, 0.2, 0.25, 0.0)
        self.until = [float(share) for share in np.cumsum(shares)]
        is_bare = np.array([row["kind"] == "none" for row in index])
        framed = np.array([row["kind"] == "clear-glasses" for row in index])
        self.bare = tf.constant(crops[is_bare])
        self.framed = tf.constant(crops[framed])
        self.covered = tf.constant(crops[~is_bare & ~framed])
        self.rng = tf.random.Generator.from_seed(seed)

    def draw(self, crops, n):
        rows = self.rng.uniform([n], 0, tf.shape(crops)[0], tf.int32)
        return tf.cast(tf.gather(crops, rows), tf.float32) / 255

    @tf.function
    def next(self, n):
        rng = self.rng
        faces = flip(rng, warp(self.draw(self.bare, n), random_moves(rng, n)))[..., :3]
        drawn = flip(rng, warp(self.draw(self.covered, n), random_moves(rng, n)))
        framed = flip(rng, warp(self.draw(self.framed, n), random_moves(rng, n)))
        shape = random_shapes(rng, n)
        surface = random_surfaces(rng, n, faces, self.draw(self.bare, n)[..., :3])
        kind = rng.uniform([n, 1, 1, 1])
        zero = tf.zeros_like(shape)
        drawn_until, moved_until, random_until, framed_until = self.until
        mask = tf.where(kind < moved_until, drawn[..., 3:], tf.where(kind < random_until, shape, zero))
        front = tf.where(kind < moved_until, drawn[..., :3], surface)
        images = tf.where(kind < drawn_until, drawn[..., :3], faces * (1 - mask) + front * mask)
        with_frame = (kind >= random_until) & (kind < framed_until)
        images = tf.where(with_frame, framed[..., :3], images)
        mask = tf.where(with_frame, frame_label(framed[..., 3:]), mask)
        images, mask = other_places(rng, images, mask, self.draw(self.bare, n)[..., :3])
        return light_and_camera(rng, images), mask
