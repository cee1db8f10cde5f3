"""The interface between an engine and this library."""

import os
import time
from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Sequence, Union

from . import limits

ERROR_CODES = (
    "face_not_detected",
    "unsupported_format",
    "input_too_large",
    "content_rejected",
    "processing_failed",
)


@dataclass(frozen=True)
class Hint:
    """Something about an input that the job's owner can do better. `input` is its role, such as `face`."""

    code: str
    message: str
    input: Optional[str] = None


@dataclass(frozen=True)
class Model:
    """A model by what its owner states of it. `sha256` has 64 lower-case hexadecimal digits."""

    name: str
    sha256: str
    licence: str


@dataclass(frozen=True)
class Findings:
    """What was found out about the inputs, for the job's owner.

    `changed` is the number of faces that are changed, in a video the most in one frame; None: no faces are counted.
    `left` maps the reason for which others are left alone, such as `bystander`, to their number.
    `models` are those that the output was made with; the job's record and the C2PA manifest name them.
    """

    changed: Optional[int] = None
    left: Mapping[str, int] = field(default_factory=dict)
    hints: Sequence[Hint] = ()
    models: Sequence[Model] = ()


class RenderError(Exception):
    """The work cannot be done, and a retry would not help. The message is shown to the job's owner."""

    def __init__(self, code: str, message: str, findings: Optional[Findings] = None):
        if code not in ERROR_CODES:
            raise ValueError(f"{code!r} is none of {', '.join(ERROR_CODES)}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.findings = findings


class RenderInterrupted(Exception):
    """The work could not be done this time, such as for lack of memory on the GPU. The agent repeats the attempt.

    With `reload` the worker process ends and loads the model again before it gets more work. While it cannot, the
    agent offers nothing of this engine. The message goes to the agent's log, not to the job's owner.
    """

    def __init__(self, message: str, reload: bool = False):
        super().__init__(message)
        self.message = message
        self.reload = reload


class Cancelled(BaseException):
    """Raised inside render() when the job was cancelled. Not an Exception, so that no handler swallows it."""


@dataclass(frozen=True)
class Limits:
    """Limits of one input; 0 means no limit. The agent enforces the first, the engine the others."""

    max_input_bytes: int = 0
    max_pixels: int = 0
    max_seconds: float = 0


OPTION_TYPES = ("integer", "number", "boolean", "choice", "text")

Value = Union[int, float, bool, str]


@dataclass(frozen=True)
class Option:
    """What a render may be told beyond its parameters. The engine's owner sets it, or lets callers give it.

    `minimum` and `maximum` bound an integer or a number, `choices` are the values of a choice, `max_length` the most
    characters of a text. `default` is what a render without it does; None: that is no value of it.
    """

    name: str
    type: str
    description: str
    minimum: Optional[float] = None
    maximum: Optional[float] = None
    choices: Sequence[str] = ()
    max_length: int = 2000
    default: Optional[Value] = None

    def value_of(self, text: str) -> Value:
        """Returns the value that the agent's text means. The agent has checked it."""
        if self.type == "integer":
            return int(text)
        if self.type == "number":
            return float(text)
        return text == "true" if self.type == "boolean" else text


def text_of_value(value: Value) -> str:
    """Returns a value as it travels."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Voice:
    """
    A voice of Avatar. `language` is a BCP 47 tag in lower case, `gender` is female, male or empty, and `variants` are endings
    that its id may have, each a voice of its own.
    """

    id: str
    language: str
    gender: str = ""
    variants: Sequence[str] = ()


@dataclass(frozen=True)
class Speech:
    """Voices and languages of Avatar. A voice_id or language that none announces is refused at the submit."""

    voices: Sequence[Voice]
    # Tags of all languages that are understood, in lower case.
    languages: Sequence[str]


@dataclass(frozen=True)
class Capability:
    name: str
    memory_mib: int = 0
    slots: int = 1
    limits: Limits = Limits()
    # Peak memory of one render on the card, beside what the engine holds there, in MiB.
    vram_mib: int = 0
    options: Sequence[Option] = ()
    # Whether a render may have several pictures of the person whose face is put in: face_2 to face_8 beside face.
    several_faces: bool = False
    # Of avatar. None: nothing is known of its voices.
    speech: Optional[Speech] = None


@dataclass(frozen=True)
class Result:
    """Result of render(). Exactly one of `images` and `seconds` is set, as measured on the output."""

    file: str
    content_type: str
    images: Optional[int] = None
    seconds: Optional[float] = None
    details: Mapping[str, Union[str, int, float]] = field(default_factory=dict)
    findings: Optional[Findings] = None

    @property
    def unit(self) -> str:
        return "image" if self.seconds is None else "second"

    @property
    def milli_units(self) -> int:
        if (self.images is None) == (self.seconds is None):
            raise ValueError("a result has either images or seconds")
        return round((self.images if self.seconds is None else self.seconds) * 1000)


class Job:
    """One render or inspection. `inputs` maps roles to paths of files to read; `parameters` maps names to text.

    `options` maps names of the capability's options to values; those that are left out have their default.
    """

    def __init__(
        self,
        capability: str,
        inputs: Dict[str, str],
        parameters: Dict[str, str],
        output_dir: Optional[str],
        tell,
        cancelled,
        options: Optional[Dict[str, Value]] = None,
    ):
        self.capability = capability
        self.inputs = inputs
        self.parameters = parameters
        self.output_dir = output_dir
        self.options = options or {}
        self._tell = tell
        self._cancelled = cancelled
        self._fraction = 0.0
        self._stage = limits.STAGE
        self._stages: Dict[str, float] = {}
        self._since = time.monotonic()

    def output(self, name: str) -> str:
        """Returns the path at which a file of this name must be written. Raises ValueError in an inspection."""
        if self.output_dir is None:
            raise ValueError("an inspection writes nothing")
        return os.path.join(self.output_dir, name)

    def progress(self, fraction: float, stage: str, seconds_left: Optional[float] = None) -> None:
        """Reports the progress (0 to 1) and the stage that begins. Raises Cancelled in a cancelled job.

        Call it several times a second.
        """
        if self._cancelled():
            raise Cancelled()
        self._lap(limits.stage(stage))
        self._fraction = min(1.0, max(self._fraction, float(fraction)))
        self._tell(self._fraction, self._stage, limits.seconds_left(seconds_left))

    def stages(self) -> Dict[str, float]:
        """Returns the time of every stage so far, in milliseconds."""
        self._lap(self._stage)
        return dict(self._stages)

    def _lap(self, stage: str) -> None:
        now = time.monotonic()
        limits.add_time(self._stages, self._stage, (now - self._since) * 1000)
        self._since = now
        self._stage = stage


class Engine:
    """Base class of an engine. `concurrency` processes have one instance each, which makes one render at a time.

    `worker` is the number of the process, from 0 to `concurrency` - 1, such as to choose its GPU. It is set before
    the instance is made.
    """

    name: str = ""
    version: str = ""
    capabilities: Sequence[Capability] = ()
    concurrency: int = 1
    # Memory on the card that all its processes hold with their models, in MiB; 0: not known.
    vram_mib: int = 0
    worker: int = 0

    def load(self) -> None:
        """Loads the model and runs it once, so that the first render is not slower than the next."""

    def render(self, job: Job) -> Result:
        raise NotImplementedError

    def inspect(self, job: Job) -> Findings:
        """Returns what render() would find out about the pictures in `job.inputs`, or raises as it would.

        An engine that defines it is asked before a job is submitted. It writes nothing, and takes few seconds.
        """
        raise NotImplementedError
