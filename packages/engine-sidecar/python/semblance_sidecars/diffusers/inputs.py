"""Reads the inputs and parameters of a job into the arguments of its pipeline."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Dict, List, Mapping

from semblance_sidecar import RenderError

from ..media import Media, check_input
from .pictures import Tick, fitted, frames_of, picture_of, samples_of
from .settings import RATES, Given, Use


@dataclass(frozen=True)
class Work:
    """`count` frames of the output are kept, at `rate`; both are of no use for a picture."""

    arguments: Mapping[str, Any]
    count: int
    rate: str


async def look(use: Use, inputs: Mapping[str, str]) -> Dict[str, Media]:
    """Returns what each input holds. Raises RenderError for one that does not fit."""
    roles = use.shape.roles
    return {role: await check_input(inputs[role], role, roles[role], use.offer.limits) for role in roles}


def work_of(use: Use, inputs: Mapping[str, str], found: Mapping[str, Media], parameters: Mapping[str, str], tick: Tick) -> Work:
    """Returns what the pipeline gets. Raises RenderError."""
    reader = _Reader(use, inputs, found, tick)
    arguments = dict(use.arguments)
    arguments.update(_parameters(use, parameters))
    lists: Dict[str, List[Any]] = {}
    for role, each in use.inputs.items():
        for given in each:
            lists.setdefault(given.argument, []).append(reader.value(role, given))
    # Inputs that share an argument go in as a list, in the order of the settings.
    arguments.update({name: values[0] if len(values) == 1 else values for name, values in lists.items()})
    if use.measures:
        width, height = reader.size()
        rate = Fraction(reader.rate) if use.video else Fraction(0)
        measured = {"width": width, "height": height, "frames": reader.padded, "rate": int(rate) if rate.denominator == 1 else float(rate)}
        arguments.update({argument: measured[name] for name, argument in use.measures.items()})
    return Work(arguments, reader.count, reader.rate)


def _parameters(use: Use, said: Mapping[str, str]) -> Dict[str, Any]:
    """Returns the arguments that the job's parameters give. One that the job leaves out keeps the fixed argument."""
    found = {}
    for name, choice in use.parameters.items():
        if name not in said:
            continue
        if choice.values and said[name] not in choice.values:
            raise RenderError("processing_failed", f"The engine has no {name.replace('_', ' ')} {said[name]!r}.")
        found[choice.argument] = choice.values.get(said[name], said[name])
    return found


class _Reader:
    """Decodes each input once. `count` is the number of frames of the output, `padded` of those that go in."""

    def __init__(self, use: Use, inputs: Mapping[str, str], found: Mapping[str, Media], tick: Tick):
        self._use = use
        self._inputs = inputs
        self._tick = tick
        self._made: Dict[str, Any] = {}
        self.count, self.padded, self.rate = 0, 0, "0/1"
        if use.video:
            role = RATES[use.offer.name]
            self.rate = found[role].rate
            if self.rate.startswith("0/") or self.rate.endswith("/0"):
                raise RenderError("unsupported_format", f"The {role.replace('_', ' ')} has no frame rate.")
            # A spoken video lasts as long as what is spoken.
            lasts = found["audio" if "audio" in found else role].seconds
            self.count = max(1, round(Fraction(self.rate) * Fraction(lasts)))
            self._bound()

    def _bound(self) -> None:
        most, step = self._use.bounds.frames, self._use.bounds.frame_step
        if self.count > most:
            raise RenderError("input_too_large", f"The video would have {self.count} frames, more than {most}.")
        self.padded = -(-(self.count - 1) // step) * step + 1

    def value(self, role: str, given: Given) -> Any:
        path, what, bounds = self._inputs[role], role.replace("_", " "), self._use.bounds
        if given.form == "path":
            return path
        if given.form == "samples":
            return samples_of(path, what, given.rate, self._tick)
        if role not in self._made:
            if self._use.shape.roles[role] == "image":
                self._made[role] = [picture_of(path, what, bounds)]
            else:
                self._made[role] = self._all_of(path, what)
        return list(self._made[role]) if given.form == "frames" else self._made[role][0]

    def size(self) -> Any:
        """Returns the size at which the base goes in."""
        base = self._use.base
        return self.value(base, Given("", "picture", 0)).size

    def _all_of(self, path: str, what: str) -> List[Any]:
        """Returns the frames that go in. Sets how many there are, unless the sound says that."""
        bounds = self._use.bounds
        spoken = self._use.offer.name == "lip-sync"
        frames = frames_of(path, what, self.rate, bounds, self.count if spoken else bounds.frames + 1, self._tick)
        if spoken:
            frames = fitted(frames, self.count)
        elif len(frames) < self.count - 2:
            # A frame more or less is of the container's doing.
            raise RenderError("unsupported_format", f"The {what} cannot be read to its end.")
        self.count = len(frames)
        self._bound()
        return [*frames, *[frames[-1]] * (self.padded - len(frames))]
