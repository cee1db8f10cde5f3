"""The settings of the sidecar: the program, a worker for each device, and the arguments of each capability."""

import os
from dataclasses import dataclass
from typing import Any, Mapping, Optional, Sequence, Tuple

from semblance_sidecar import Capability, Option
from semblance_sidecar.contract import Value, text_of_value

from ..jobs import SHAPES, Shape
from ..settings import OFFER, OPTION, Reader, SettingsFault, load, offer_of, option_of, path_from

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
class Words:
    """How an option is said: as the value of an argument, or by words of its own for each value."""

    argument: Optional[str]
    values: Mapping[str, Sequence[str]]

    def of(self, value: Value) -> Sequence[str]:
        text = text_of_value(value)
        # One word, so that no value is taken for an argument.
        return self.values[text] if self.argument is None else [f"{self.argument}={text}"]

    @property
    def all(self) -> Sequence[str]:
        return [self.argument] if self.argument is not None else [word for words in self.values.values() for word in words]


@dataclass(frozen=True)
class Use:
    """One capability."""

    offer: Capability
    shape: Shape
    target: str
    source: str
    arguments: Sequence[str]
    options: Mapping[str, "Words"]
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
    reader = Reader(said, at, ("arguments", "options", "sample", *OFFER))
    said_options = reader.mapping("options", {})
    options = [_option(str(each), one, f"{at}.options.{each}") for each, one in said_options.items()]
    offer = offer_of(name, reader, INPUT_MIB, [option for option, _ in options])
    if name not in USES:
        raise SettingsFault(f"{at}: FaceFusion has only {', '.join(USES)}")
    target, source, processor = USES[name]
    arguments = _words(reader.items("arguments", ["--processors", processor]), f"{at}.arguments")
    for word in (*arguments, *(word for _, words in options for word in words.all)):
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
    return Use(offer, SHAPES[name], target, source, arguments, {option.name: words for option, words in options}, sample)


def _option(name: str, said: Any, at: str) -> Tuple[Option, Words]:
    reader = Reader(said, at, ("argument", "words", *OPTION))
    if ("argument" in reader) == ("words" in reader):
        raise SettingsFault(f"{at} must have argument or words")
    if "argument" in reader:
        argument = reader.text("argument")
        if not argument.startswith("--") or "=" in argument:
            raise SettingsFault(f"{at}.argument must be like --face-swapper-weight")
        option = option_of(name, reader)
        if option.type == "boolean":
            raise SettingsFault(f"{at} must have words for true and false")
        return option, Words(argument, {})
    words = {text_of_value(each): _words(one, f"{at}.words") for each, one in reader.mapping("words").items()}
    option = option_of(name, reader, list(words) if reader.text("type") == "choice" else ())
    wanted = {"boolean": ["true", "false"], "choice": option.choices}.get(option.type)
    if wanted is None or set(words) != set(wanted):
        raise SettingsFault(f"{at}.words must have words for each value, and its type be boolean or choice")
    return option, Words(None, words)


def _words(said: Sequence[Any], at: str) -> Sequence[str]:
    if not isinstance(said, list) or not all(isinstance(word, (str, int, float)) and not isinstance(word, bool) for word in said):
        raise SettingsFault(f"{at} must be a list of texts and numbers")
    return [str(word) for word in said]
