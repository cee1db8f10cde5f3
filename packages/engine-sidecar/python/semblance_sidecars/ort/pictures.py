"""Reads and writes pictures with Pillow: JPEG, PNG and WebP, in 8 bits."""

import io
from dataclasses import dataclass
from typing import Optional

import numpy as np
from PIL import Image, ImageCms, ImageOps
from semblance_sidecar import RenderError

MAX_PIXELS = 40_000_000
# The longest side that OpenCV maps.
LONGEST = 32_000
FORMATS = {"JPEG": ("jpg", "image/jpeg"), "PNG": ("png", "image/png"), "WEBP": ("webp", "image/webp")}
# Pillow's own limit is a warning below 179 megapixels; `_open` has one that holds.
Image.MAX_IMAGE_PIXELS = None


@dataclass(frozen=True)
class Base:
    """The picture that is changed, with what is needed to write it in its form. `pixels`: red, green, blue."""

    pixels: np.ndarray
    alpha: Optional[np.ndarray]
    grey: bool
    format: str
    lossless: bool
    profile: Optional[bytes]


def read_base(path: str, most_pixels: int = 0) -> Base:
    """Returns the picture that is changed: upright, in its own colours. Raises RenderError."""
    what = "The base image"
    image = _open(path, what, most_pixels)
    if getattr(image, "n_frames", 1) > 1:
        raise RenderError("unsupported_format", f"{what} is animated: send a still picture, or a video to Video Swap.")
    form, profile = image.format, image.info.get("icc_profile")
    with open(path, "rb") as file:
        lossless = form == "PNG" or (form == "WEBP" and _lossless_webp(file.read(1 << 20)))
    image = _upright(image, what)
    if image.mode == "CMYK":
        image, profile = _srgb(image), None
    grey = image.mode in ("1", "L", "LA", "I", "I;16", "F")
    alpha = np.asarray(image.convert("RGBA"))[:, :, 3] if "A" in image.getbands() or "transparency" in image.info else None
    return Base(_rgb(image), alpha, grey, form, lossless, profile)


def read_face(path: str, most_pixels: int = 0) -> np.ndarray:
    """Returns the picture of a face that is used elsewhere: upright, in sRGB. Raises RenderError."""
    what = "The face picture"
    return _rgb(_srgb(_upright(_open(path, what, most_pixels), what)))


def encoded(base: Base) -> bytes:
    """Returns a changed picture in the form that it came in."""
    image = Image.fromarray(base.pixels)
    if base.grey and base.format != "WEBP":
        image = image.convert("L")
    if base.alpha is not None and base.format != "JPEG":
        image.putalpha(Image.fromarray(base.alpha))
    ways = {
        "JPEG": {"quality": 95, "subsampling": 0},
        "PNG": {"compress_level": 6},
        "WEBP": {"lossless": True, "exact": True} if base.lossless else {"quality": 95, "alpha_quality": 100},
    }
    out = io.BytesIO()
    image.save(out, base.format, icc_profile=base.profile, **ways[base.format])
    return out.getvalue()


def _open(path: str, what: str, most_pixels: int) -> Image.Image:
    try:
        image = Image.open(path, formats=list(FORMATS))
    except OSError:
        raise RenderError("unsupported_format", f"{what} is not a JPEG, PNG or WebP file that can be read.") from None
    width, height = image.size
    most = min(most_pixels or MAX_PIXELS, MAX_PIXELS)
    if width * height > most or max(width, height) > LONGEST:
        sizes = f"at most {most / 1e6:g} megapixels, and {LONGEST} pixels on a side"
        raise RenderError("input_too_large", f"{what} has {width} × {height} pixels; {sizes}, are taken.")
    return image


def _upright(image: Image.Image, what: str) -> Image.Image:
    try:
        image.load()
        return ImageOps.exif_transpose(image)
    except Exception:
        # Pillow's decoders raise many kinds for a damaged file.
        raise RenderError("unsupported_format", f"{what} cannot be decoded: the file is damaged or cut off.") from None


def _srgb(image: Image.Image) -> Image.Image:
    profile = image.info.get("icc_profile")
    if not profile or image.mode not in ("RGB", "CMYK"):
        return image
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        return ImageCms.profileToProfile(image, source, ImageCms.createProfile("sRGB"), outputMode="RGB")
    except (ImageCms.PyCMSError, OSError):
        # A broken profile says nothing, so the picture counts as one without.
        return image


def _rgb(image: Image.Image) -> np.ndarray:
    if image.mode.startswith("I"):
        # 16 bits, which `convert` would clip.
        deep = np.asarray(image).astype(np.int64)
        return np.repeat((deep >> 8).clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)
    return np.array(image.convert("RGB"))


def _lossless_webp(head: bytes) -> bool:
    at = 12
    while at + 8 <= len(head):
        if head[at : at + 4] in (b"VP8L", b"VP8 "):
            return head[at : at + 4] == b"VP8L"
        size = int.from_bytes(head[at + 4 : at + 8], "little")
        at += 8 + size + size % 2
    return False
