"""Cuts the texts, details and stages of an engine to the agent's limits, because exceeding them fails the render."""

import math
from typing import Dict, Mapping, Optional, Tuple

# Most stages of one result. The last one, OTHER, collects the time of all further stages.
STAGES = 30
OTHER = "other"
DETAILS = 32
NAME = 64
DETAIL = 256
MESSAGE = 1024
# Most hints, and most reasons for faces left alone; most characters of a hint.
FINDINGS = 8
HINT = 300
MODELS = 16
LICENCE = 200

# Replaces an empty message, because the owner of the job must get one.
REFUSED = "The engine refused this input."
STAGE = "work"


def cut(text: object, most: int) -> str:
    """Returns the first `most` characters of a text. As in the agent, a character beyond U+FFFF counts twice."""
    return str(text).encode("utf-16-le", "ignore")[: 2 * most].decode("utf-16-le", "ignore")


def stage(name: object) -> str:
    return cut(name, NAME) or STAGE


def refusal(message: object) -> str:
    text = str(message).strip().strip("\ufeff").strip()
    return cut(text, MESSAGE) or REFUSED


def seconds_left(value: Optional[float]) -> Optional[float]:
    """Returns None for a value that is no time, such as an estimate that was divided by zero."""
    if value is None:
        return None
    seconds = float(value)
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def details(said: Mapping[str, object]) -> Dict[str, str]:
    return {cut(name, NAME): cut(value, DETAIL) for name, value in list(said.items())[:DETAILS]}


def findings(said) -> Optional[Tuple]:
    """Returns findings as plain values for the agent: (faces or None, hints, models). None: no findings."""
    if said is None:
        return None
    hints = [(str(hint.code), cut(hint.message, HINT), hint.input) for hint in list(said.hints)[:FINDINGS]]
    models = [(cut(model.name, NAME), str(model.sha256), cut(model.licence, LICENCE)) for model in list(said.models)[:MODELS]]
    if said.changed is None:
        return (None, hints, models)
    left = [(str(reason), int(count)) for reason, count in list(said.left.items())[:FINDINGS] if count > 0]
    changed = int(said.changed)
    return ((changed + sum(count for _, count in left), changed, left), hints, models)


def add_time(stages: Dict[str, float], name: str, milliseconds: float) -> None:
    """Adds to the time of a stage; to that of OTHER if the result has no room for another stage."""
    if name not in stages and len(stages) >= STAGES - 1:
        name = OTHER
    stages[name] = stages.get(name, 0.0) + milliseconds
