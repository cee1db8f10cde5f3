"""The capabilities that jobs have: what goes in, and what comes out."""

from typing import Mapping, NamedTuple, Tuple


class Shape(NamedTuple):
    """`roles` maps each input to its kind of file; `needs` are parameters that no render can do without."""

    roles: Mapping[str, str]
    unit: str
    needs: Tuple[str, ...] = ()


# As packages/engine-api/capabilities.ts has them; a test compares.
SHAPES = {
    "character-swap": Shape({"video": "video", "character": "image"}, "second"),
    "face-swap": Shape({"video": "video", "face": "image"}, "second"),
    "face-swap-image": Shape({"image": "image", "face": "image"}, "image"),
    "motion-control": Shape({"image": "image", "motion_video": "video"}, "second"),
    "avatar": Shape({"image": "image"}, "second", ("script",)),
    "lip-sync": Shape({"video": "video", "audio": "audio"}, "second"),
}
