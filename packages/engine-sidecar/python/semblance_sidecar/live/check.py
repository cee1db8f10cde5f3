"""Checks the class of a live engine before anything is started, because the agent would only report a broken contract."""

from numbers import Integral, Real
from typing import Optional

from .contract import JPEG, RGB, LivePictures, LiveSound


def fault_of(engine_class) -> Optional[str]:
    """Returns the first fault of the class in one sentence; None if it has none."""
    if not (isinstance(engine_class, type) and issubclass(engine_class, (LivePictures, LiveSound))):
        return f"serve_live() takes a subclass of LivePictures or LiveSound, not {engine_class!r}"
    of = engine_class.__name__
    for field in ("name", "version"):
        value = getattr(engine_class, field)
        if not (isinstance(value, str) and value):
            return f"{of}.{field} is {value!r}, not a text of one character or more"
    if not _is_whole(engine_class.slots, 1, 1024):
        return f"{of}.slots is {engine_class.slots!r}, not a whole number from 1 to 1024"
    if issubclass(engine_class, LiveSound):
        for field in ("input_rate", "output_rate"):
            value = getattr(engine_class, field)
            if not (value == 0 or (_is_whole(value, 8_000, 96_000) and value % 25 == 0)):
                return f"{of}.{field} is {value!r}, not 0, and not 8000 to 96000 in steps of 25"
        return None
    if engine_class.form not in (RGB, JPEG):
        return f'{of}.form is {engine_class.form!r}, not "{RGB}" or "{JPEG}"'
    if not _is_whole(engine_class.in_flight, 1, 8):
        return f"{of}.in_flight is {engine_class.in_flight!r}, not a whole number from 1 to 8"
    size = engine_class.size
    if not (isinstance(size, tuple) and len(size) == 2 and all(_is_whole(side, 1, 1280) for side in size)):
        return f"{of}.size is {size!r}, not (width, height), each from 1 to 1280"
    if size[0] * size[1] > 1280 * 720:
        return f"{of}.size is {size!r}, which is more than 1280 × 720 pixels"
    if not (isinstance(engine_class.fps, Real) and 0 < engine_class.fps <= 60):
        return f"{of}.fps is {engine_class.fps!r}, not a number up to 60"
    return None


def _is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= value <= most
