"""The settings of the sidecar: a worker for each device, and for each capability its pipeline and what goes where in it."""

import os
import re
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from semblance_sidecar import Capability

from ..jobs import SHAPES, Shape
from ..settings import OFFER, Reader, Refusal, SettingsFault, load, offer_of, path_from, refusals_of, sample_of
from .source import FORMS, Source, source_of

ENVIRONMENT = "SEMBLANCE_DIFFUSERS_SETTINGS"
# The largest input that the agent brings unless the settings say less, in MiB.
INPUT_MIB = 2048
# Avatar is not among them: its job has a text to speak, and no sound.
USES = ("face-swap-image", "face-swap", "character-swap", "motion-control", "lip-sync")
# The input whose sound the video gets, and the input whose pictures give its rate and its number of frames.
SOUNDS = {"face-swap": "video", "character-swap": "video", "motion-control": "motion_video", "lip-sync": "audio"}
RATES = {**SOUNDS, "lip-sync": "video"}
# What the sidecar itself gives to a pipeline.
OURS = ("generator", "output_type", "return_dict", "callback_on_step_end", "callback_on_step_end_tensor_inputs")
MEASURES = ("width", "height", "frames", "rate")
DEVICE = re.compile(r"cpu|mps|(cuda|xpu)(:\d+)?")


@dataclass(frozen=True)
class Given:
    """How an input of the job goes into an argument. `rate` is that of samples of sound, in Hz."""

    argument: str
    form: str
    rate: int


@dataclass(frozen=True)
class Choice:
    """How a parameter of the job goes into an argument. `values` translates what the job says."""

    argument: str
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Bounds:
    """The largest picture that goes in and what its sides are multiples of, the same of videos, and the largest output."""

    pixels: int
    multiple: int
    frames: int
    frame_step: int
    output_pixels: int


@dataclass(frozen=True)
class Use:
    """One capability. `at` is its place in the settings, for messages."""

    at: str
    offer: Capability
    shape: Shape
    source: Source
    inputs: Mapping[str, Sequence[Given]]
    parameters: Mapping[str, Choice]
    measures: Mapping[str, str]
    arguments: Mapping[str, Any]
    seed: int
    bounds: Bounds
    refusals: Sequence[Refusal]
    sample: Optional[Tuple[Mapping[str, str], Mapping[str, str]]]

    @property
    def base(self) -> str:
        """The input whose size the output has."""
        return next(iter(self.shape.roles))

    @property
    def video(self) -> bool:
        return self.shape.unit == "second"

    @property
    def named(self) -> Dict[str, str]:
        """Maps each argument that the settings name to the place that names it."""
        found = {name: "arguments" for name in self.arguments}
        for role, each in self.inputs.items():
            found.update({given.argument: f"inputs.{role}" for given in each})
        found.update({choice.argument: f"parameters.{name}" for name, choice in self.parameters.items()})
        found.update({argument: f"measures.{name}" for name, argument in self.measures.items()})
        return found


@dataclass(frozen=True)
class Settings:
    devices: Sequence[str]
    vram_mib: int
    uses: Mapping[str, Use]


def read_settings() -> Settings:
    """Returns the settings of the file that SEMBLANCE_DIFFUSERS_SETTINGS names. Raises SettingsFault."""
    path = path_from(ENVIRONMENT)
    reader = Reader(load(path), os.path.basename(path), ("devices", "vram_mib", "capabilities"))
    devices = reader.items("devices")
    for device in devices:
        if not isinstance(device, str) or not DEVICE.fullmatch(device):
            raise SettingsFault(f"{reader.at}.devices: {device!r} is no device such as cuda:0 or cpu")
    said = reader.mapping("capabilities")
    if not said:
        raise SettingsFault(f"{reader.at}.capabilities names none")
    uses = {name: _use(name, each, f"{reader.at}.capabilities.{name}", path) for name, each in said.items()}
    for use in uses.values():
        if use.source.offload and "cpu" in devices:
            raise SettingsFault(f"{use.at}.memory.cpu_offload needs devices other than the CPU")
    return Settings(devices, reader.count("vram_mib", 0, 0), uses)


def _use(name: str, said: Any, at: str, path: str) -> Use:
    ours = ("inputs", "parameters", "measures", "arguments", "seed", "size", "frames", "output", "refusals", "sample", "vram_mib")
    reader = Reader(said, at, (*FORMS, *ours, *OFFER))
    offer = offer_of(name, reader, INPUT_MIB)
    if name not in USES:
        raise SettingsFault(f"{at}: this sidecar has only {', '.join(USES)}")
    folder = os.path.dirname(path)
    shape = SHAPES[name]
    use = Use(
        at=at,
        offer=replace(offer, vram_mib=reader.count("vram_mib", 0, 0)),
        shape=shape,
        source=source_of(reader, folder),
        inputs=_inputs(reader, shape),
        parameters=_parameters(reader),
        measures=_measures(reader, name),
        arguments=_names(reader.mapping("arguments", {}), f"{at}.arguments"),
        seed=reader.count("seed", 0, 0),
        bounds=_bounds(reader),
        refusals=refusals_of(reader),
        sample=sample_of(reader, shape, folder),
    )
    _assert_once(use)
    return use


def _inputs(reader: Reader, shape: Shape) -> Mapping[str, Sequence[Given]]:
    found = {}
    for role, said in reader.mapping("inputs").items():
        at = f"{reader.at}.inputs.{role}"
        if role not in shape.roles:
            raise SettingsFault(f"{at}: the job has only {', '.join(shape.roles)}")
        found[role] = [_given(each, at, shape.roles[role]) for each in (said if isinstance(said, list) else [said])]
    if not found:
        raise SettingsFault(f"{reader.at}.inputs names none")
    return found


# The forms in which an input of each kind can go into an argument; the first one is the default.
AS = {"image": ("picture", "path"), "video": ("frames", "first", "path"), "audio": ("samples", "path")}


def _given(said: Any, at: str, kind: str) -> Given:
    reader = Reader({"argument": said} if isinstance(said, str) else said, at, ("argument", "as", "rate"))
    form = reader.text("as", AS[kind][0])
    if form not in AS[kind]:
        raise SettingsFault(f"{at}.as must be one of {', '.join(AS[kind])}")
    return Given(_name(reader.text("argument"), f"{at}.argument"), form, reader.count("rate", 16_000))


def _parameters(reader: Reader) -> Mapping[str, Choice]:
    found = {}
    for name, said in reader.mapping("parameters", {}).items():
        at = f"{reader.at}.parameters.{name}"
        one = Reader({"argument": said} if isinstance(said, str) else said, at, ("argument", "values"))
        values = {str(key): value for key, value in one.mapping("values", {}).items()}
        found[str(name)] = Choice(_name(one.text("argument"), f"{at}.argument"), values)
    return found


def _measures(reader: Reader, capability: str) -> Mapping[str, str]:
    found = {}
    for name, said in reader.mapping("measures", {}).items():
        at = f"{reader.at}.measures.{name}"
        if name not in MEASURES or (capability not in RATES and name in ("frames", "rate")):
            raise SettingsFault(f"{at} is unknown; known are {', '.join(MEASURES)}, the last two for videos")
        found[name] = _name(said, at)
    return found


def _names(said: Mapping[Any, Any], at: str) -> Mapping[str, Any]:
    return {_name(name, f"{at}.{name}"): value for name, value in said.items()}


def _name(said: Any, at: str) -> str:
    if not isinstance(said, str) or not said.isidentifier():
        raise SettingsFault(f"{at} must be the name of an argument")
    if said in OURS:
        raise SettingsFault(f"{at}: the sidecar itself gives {said}")
    return said


def _bounds(reader: Reader) -> Bounds:
    size = Reader(reader.mapping("size", {}), f"{reader.at}.size", ("pixels", "multiple"))
    frames = Reader(reader.mapping("frames", {}), f"{reader.at}.frames", ("most", "step"))
    output = Reader(reader.mapping("output", {}), f"{reader.at}.output", ("pixels",))
    return Bounds(
        pixels=size.count("pixels", 1 << 20),
        multiple=size.count("multiple", 8),
        frames=frames.count("most", 256),
        frame_step=frames.count("step", 1),
        output_pixels=output.count("pixels", 1 << 24),
    )


def _assert_once(use: Use) -> None:
    """Inputs may share an argument, which then gets a list of them; nothing else may."""
    named = [*use.arguments, *(choice.argument for choice in use.parameters.values()), *use.measures.values()]
    taken = {given.argument for each in use.inputs.values() for given in each}
    # A parameter that the job leaves out keeps the fixed argument.
    fixed = [name for name in named if name not in use.arguments]
    for name in fixed:
        if fixed.count(name) > 1 or name in taken:
            raise SettingsFault(f"{use.at}: the argument {name} is given twice")
    for name in use.arguments:
        if name in taken or name in use.measures.values():
            raise SettingsFault(f"{use.at}.arguments.{name} is given twice")

