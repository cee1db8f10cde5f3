"""Trains the network that finds what stands in front of a face, and writes it as ONNX.

    pip install -r tools/train-face-cover/requirements.txt
    python tools/train-face-cover/train.py CROPS OBJECTS.onnx [--minutes 26]
    python tools/train-face-cover/train.py CROPS FRAMES.onnx --frames [--minutes 28]

CROPS is the folder that collect.ts filled. With --frames it also learns the frames of clear glasses, which costs it some
thin objects, so two networks are trained, and merge.py makes one file of them. The network is a small U-Net (Ronneberger and others 2015), trained on
composites, which carry over to unseen objects (Voo and others 2022). Each minute it prints how much of the objects it
finds on portraits that were kept out of the training, and how much of bare faces it takes for one.
"""

import argparse
import time

import numpy as np
import tensorflow as tf
from augment import SIZE, Batches, frame_label, middle, read_crops
from export import write_onnx

BATCH = 24
RATE = 2e-3
SEED = 7


def build():
    """Returns the network: [n, SIZE, SIZE, 3] in 0-1 to logits [n, SIZE, SIZE, 1]."""
    layers = tf.keras.layers

    def conv(x, channels, stride=1):
        x = layers.Conv2D(channels, 3, stride, "same", use_bias=False)(x)
        return layers.ReLU()(layers.BatchNormalization(momentum=0.98)(x))

    image = layers.Input([SIZE, SIZE, 3])
    x = image
    skips = []
    for channels in (16, 32, 48, 64):
        # Symmetric padding, so that ONNX needs no other one.
        x = layers.ZeroPadding2D(1)(x)
        x = layers.Conv2D(channels, 3, 2, "valid", use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization(momentum=0.98)(x))
        x = conv(x, channels)
        skips.append(x)
    x = conv(skips.pop(), 64)
    for channels in (48, 32, 16):
        x = layers.UpSampling2D(2)(x)
        x = conv(layers.Concatenate()([x, skips.pop()]), channels)
    x = layers.Conv2D(4, 3, 1, "same")(x)
    x = layers.Lambda(lambda y: tf.nn.depth_to_space(y, 2))(x)
    return tf.keras.Model(image, x)


def weights_of(masks):
    """Returns how much each pixel counts: the face more than what is around it."""
    axis = np.linspace(-1, 1, SIZE, dtype=np.float32)
    oval = (axis[None, :] / 0.72) ** 2 + (axis[:, None] / 0.9) ** 2 < 1
    return tf.constant(np.where(oval, 1.0, 0.25)[None, :, :, None], tf.float32) * tf.ones_like(masks)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("crops")
    parser.add_argument("out")
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--frames", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.keras.utils.set_random_seed(SEED)
    batches = Batches(*read_crops(options.crops, "train"), SEED, options.frames)
    held, index = read_crops(options.crops, "held-out")
    held = middle(held)
    framed = tf.constant([[[[row["kind"].endswith("glasses") and row["kind"] != "sunglasses"]]] for row in index])
    held = tf.concat([held[..., :3], tf.where(framed, frame_label(held[..., 3:]), held[..., 3:])], 3)
    model = build()
    optimizer = tf.keras.optimizers.AdamW(RATE, weight_decay=1e-4)

    @tf.function
    def step():
        images, masks = batches.next(BATCH)
        weights = weights_of(masks)
        with tf.GradientTape() as tape:
            logits = model(images, training=True)
            entropy = tf.nn.sigmoid_cross_entropy_with_logits(masks, logits)
            found = tf.sigmoid(logits)
            both = tf.reduce_sum(weights * found * masks, [1, 2, 3])
            either = tf.reduce_sum(weights * (found + masks), [1, 2, 3])
            dice = 1 - (2 * both + 20) / (either + 20)
            loss = tf.reduce_mean(weights * entropy) + 0.5 * tf.reduce_mean(dice)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    start = told = time.monotonic()
    steps, losses = 0, []
    while (gone := (time.monotonic() - start) / 60) < options.minutes:
        # Cosine decay over the time that is given.
        optimizer.learning_rate.assign(RATE * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * gone / options.minutes))))
        losses.append(float(step()))
        steps += 1
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{gone:.1f} min, {steps} steps, loss {np.mean(losses[-300:]):.4f}", report(model, held, index), flush=True)
            write_onnx(model, options.out)
    write_onnx(model, options.out)
    print(report(model, held, index))


def report(model, held, index):
    """Returns the share of each object's pixels that is found, and of bare faces' that is taken for an object."""
    found = tf.sigmoid(model.predict(held[..., :3], verbose=0)).numpy()[..., 0] > 0.5
    masks = held[..., 3].numpy() > 0.5
    oval = weights_of(held[:1, ..., :1]).numpy()[0, ..., 0] > 0.5
    parts = {}
    for one, mask, row in zip(found, masks, index):
        wrong = (one & ~mask & oval).sum() / oval.sum()
        right = (one & mask & oval).sum() / max(1, (mask & oval).sum())
        parts.setdefault(row["kind"], []).append((right, wrong))
    return {
        kind: f"{100 * np.mean([r for r, _ in all]):.0f}/{100 * np.mean([w for _, w in all]):.1f}"
        for kind, all in sorted(parts.items())
    }


if __name__ == "__main__":
    main()
