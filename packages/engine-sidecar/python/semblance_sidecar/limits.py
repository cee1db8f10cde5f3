"""What the agent takes of an engine's words. A render whose words go beyond would fail for them, so they are cut here."""

import math
from typing import Dict, Mapping, Optional

# The stages of one result, the last of which takes the time of all that came too late.
STAGES = 30
OTHER = "other"
DETAILS = 32
NAME = 64
DETAIL = 256
MESSAGE = 1024

# For an engine that refuses without a word: whoever sent the work must be told something.
REFUSED = "The engine refused this input."
STAGE = "work"


def cut(text: object, most: int) -> str:
    """The text's beginning. Characters are counted as the agent does: beyond U+FFFF one counts twice."""
    return str(text).encode("utf-16-le", "ignore")[: 2 * most].decode("utf-16-le", "ignore")


def stage(name: object) -> str:
    return cut(name, NAME) or STAGE


def refusal(message: object) -> str:
    text = str(message).strip().strip("\ufeff").strip()
    return cut(text, MESSAGE) or REFUSED


def seconds_left(value: Optional[float]) -> Optional[float]:
    """None for what is no time, as an estimate that was divided by zero."""
    if value is None:
        return None
    seconds = float(value)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def details(said: Mapping[str, object]) -> Dict[str, str]:
    return {cut(name, NAME): cut(value, DETAIL) for name, value in list(said.items())[:DETAILS]}


def add_time(stages: Dict[str, float], name: str, milliseconds: float) -> None:
    """Adds to the time of a stage, or to that of the others once there are as many as are taken."""
    if name not in stages and len(stages) >= STAGES - 1:
        name = OTHER
    stages[name] = stages.get(name, 0.0) + milliseconds
