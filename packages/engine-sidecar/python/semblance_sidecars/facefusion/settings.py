"""The settings of the sidecar: the program, a worker for each device, and the arguments of each capability."""

import os
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence

from semblance_sidecar import Capability

from ..jobs import SHAPES, Shape
from ..settings import OFFER, Reader, SettingsFault, load, offer_of, path_from

ENVIRONMENT = "SEMBLANCE_FACEFUSION_SETTINGS"
# The largest input that the agent brings unless the settings say less, in MiB.
INPUT_MIB = 2048
# Of each capability that FaceFusion has: the role of its target and of its source, and its processor.
USES = {
    "face-swap-image": ("image", "face", "face_swapper"),
    "face-swap": ("video", "face", "face_swapper"),
    "lip-sync": ("video", "audio", "lip_syncer"),
}
# What the sidecar itself says to FaceFusion.
OURS = (
    *("-s", "--source-paths", "-t", "--target-path", "-o", "--output-path", "--temp-path", "--jobs-path"),
    *("--execution-device-ids", "--log-level", "--trim-frame-start", "--trim-frame-end"),
)


@dataclass(frozen=True)
class Use:
    """One capability."""

    offer: Capability
    shape: Shape
    target: str
    source: str
    arguments: Sequence[str]
    sample: Optional[Mapping[str, str]]


@dataclass(frozen=True)
class Settings:
    program: Sequence[str]
    folder: str
    devices: Sequence[str]
    uses: Mapping[str, Use]


def read_settings() -> Settings:
    """Returns the settings of the file that SEMBLANCE_FACEFUSION_SETTINGS names. Raises SettingsFault."""
    path = path_from(ENVIRONMENT)
    reader = Reader(load(path), os.path.basename(path), ("program", "folder", "devices", "capabilities"))
    folder = os.path.join(os.path.dirname(path), reader.text("folder"))
    if not os.path.isdir(folder):
        raise SettingsFault(f"{reader.at}.folder: there is no folder {folder}")
    devices = reader.items("devices", [0])
    if not all(isinstance(each, int) and each >= 0 for each in devices):
        raise SettingsFault(f"{reader.at}.devices must be numbers of devices from 0")
    said = reader.mapping("capabilities")
    if not said:
        raise SettingsFault(f"{reader.at}.capabilities names none")
    return Settings(
        program=_words(reader.items("program"), f"{reader.at}.program"),
        folder=folder,
        devices=[str(each) for each in devices],
        uses={name: _use(name, each, f"{reader.at}.capabilities.{name}", path) for name, each in said.items()},
    )


def _use(name: str, said: Any, at: str, path: str) -> Use:
    reader = Reader(said, at, ("arguments", "sample", *OFFER))
    offer = offer_of(name, reader, INPUT_MIB)
    if name not in USES:
        raise SettingsFault(f"{at}: FaceFusion has only {', '.join(USES)}")
    target, source, processor = USES[name]
    arguments = _words(reader.items("arguments", ["--processors", processor]), f"{at}.arguments")
    for word in arguments:
        if word.split("=")[0] in OURS:
            raise SettingsFault(f"{at}.arguments: the sidecar itself says {word}")
    if processor not in arguments:
        raise SettingsFault(f"{at}.arguments must have --processors with {processor}")
    sample = None
    if "sample" in reader:
        files = reader.texts("sample")
        sample = {role: os.path.join(os.path.dirname(path), files.get(role, "")) for role in (target, source)}
        if set(files) != set(sample) or not all(os.path.isfile(file) for file in sample.values()):
            raise SettingsFault(f"{at}.sample must name existing files for {target} and {source}")
    return Use(offer, SHAPES[name], target, source, arguments, sample)


def _words(said: Sequence[Any], at: str) -> Sequence[str]:
    if not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in said):
        raise SettingsFault(f"{at} must be a list of texts and numbers")
    return [str(word) for word in said]
