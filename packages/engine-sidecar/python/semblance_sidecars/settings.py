"""Reads a settings file of a ready sidecar: YAML, of which JSON is a part. Every fault names the place."""

import os
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

import yaml
from semblance_sidecar import Capability, Limits, Option
from semblance_sidecar.check import fault_of_option
from semblance_sidecar.contract import ERROR_CODES, OPTION_TYPES

from .jobs import SHAPES, Shape

MIB = 1 << 20


class SettingsFault(Exception):
    """The settings are wrong. The message is one line, for the owner."""


def load(path: str) -> Mapping[str, Any]:
    """Returns the settings of a file. Raises SettingsFault."""
    try:
        with open(path, encoding="utf-8") as file:
            said = yaml.safe_load(file)
    except OSError as error:
        raise SettingsFault(f"{path} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsFault(f"{path} is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(said, dict):
        raise SettingsFault(f"{path} holds no settings")
    return said


class Reader:
    """One mapping of the settings, with its place for messages. Every name has to be read: unknown ones are faults."""

    def __init__(self, said: Any, at: str, known: Sequence[str]):
        if not isinstance(said, dict):
            raise SettingsFault(f"{at} must be a mapping")
        for name in said:
            if name not in known:
                raise SettingsFault(f"{at}.{name} is unknown; known are {', '.join(known)}")
        self._said = said
        self.at = at

    def __contains__(self, name: str) -> bool:
        return name in self._said

    def text(self, name: str, default: Optional[str] = None) -> str:
        return self._get(name, default, lambda it: isinstance(it, str) and it != "", "a text")

    def texts(self, name: str) -> Dict[str, str]:
        """Returns a mapping of texts; numbers count as such, because YAML reads `17: load` as one."""
        said = self._get(name, {}, lambda it: isinstance(it, dict), "a mapping")
        if not all(isinstance(each, (str, int, float)) for pair in said.items() for each in pair):
            raise SettingsFault(f"{self.at}.{name} must map texts to texts")
        return {str(key): str(value) for key, value in said.items()}

    def number(self, name: str, default: Optional[float] = None, least: float = 0) -> float:
        real = lambda it: isinstance(it, (int, float)) and not isinstance(it, bool) and it >= least  # noqa: E731
        return self._get(name, default, real, f"a number from {least:g}")

    def count(self, name: str, default: Optional[int] = None, least: int = 1) -> int:
        whole = lambda it: isinstance(it, int) and not isinstance(it, bool) and it >= least  # noqa: E731
        return self._get(name, default, whole, f"a whole number from {least}")

    def any_number(self, name: str) -> Optional[float]:
        """Returns a number, or None where there is none."""
        if name not in self._said:
            return None
        return self._get(name, None, lambda it: isinstance(it, (int, float)) and not isinstance(it, bool), "a number")

    def flag(self, name: str) -> bool:
        return self._get(name, False, lambda it: isinstance(it, bool), "true or false")

    def items(self, name: str, default: Any = None) -> Sequence[Any]:
        return self._get(name, default, lambda it: isinstance(it, list) and it, "a list of one or more")

    def mapping(self, name: str, default: Any = None) -> Mapping[str, Any]:
        return self._get(name, default, lambda it: isinstance(it, dict), "a mapping")

    def raw(self, name: str) -> Any:
        return self._get(name, None, lambda _: True, "there")

    def _get(self, name: str, default: Any, holds: Callable[[Any], Any], what: str) -> Any:
        if name not in self._said:
            if default is None:
                raise SettingsFault(f"{self.at}.{name} is missing: it must be {what}")
            return default
        if not holds(self._said[name]):
            raise SettingsFault(f"{self.at}.{name} must be {what}")
        return self._said[name]


# The settings that every capability of a ready sidecar has.
OFFER = ("memory_mib", "slots", "limits")
# The settings that every option has.
OPTION = ("type", "description", "minimum", "maximum", "choices", "max_length", "default")


def offer_of(name: str, reader: Reader, default_input_mib: int, options: Sequence[Option] = ()) -> Capability:
    """Returns what the agent is told of a capability. Raises SettingsFault."""
    if name not in SHAPES:
        raise SettingsFault(f"{reader.at} is no capability of jobs: these are {', '.join(SHAPES)}")
    limits = Reader(reader.mapping("limits", {}), f"{reader.at}.limits", ("input_mib", "pixels", "seconds"))
    return Capability(
        name,
        memory_mib=reader.count("memory_mib"),
        slots=reader.count("slots", 1),
        limits=Limits(
            max_input_bytes=limits.count("input_mib", default_input_mib) * MIB,
            max_pixels=limits.count("pixels", 0, 0),
            max_seconds=limits.number("seconds", 0),
        ),
        options=options,
    )


def option_of(name: str, reader: Reader, choices: Sequence[str] = (), default: Any = None) -> Option:
    """Returns an option of a capability. `choices` and `default` count where the settings have none. Raises SettingsFault."""
    kind = reader.text("type")
    if kind not in OPTION_TYPES:
        raise SettingsFault(f"{reader.at}.type must be one of {', '.join(OPTION_TYPES)}")
    own = reader.raw("default") if "default" in reader else None
    option = Option(
        name,
        kind,
        reader.text("description"),
        minimum=reader.any_number("minimum"),
        maximum=reader.any_number("maximum"),
        choices=[str(each) for each in reader.items("choices", choices)] if kind == "choice" and "choices" in reader else choices,
        max_length=reader.count("max_length", 2000),
        default=own,
    )
    if own is None and default is not None and not fault_of_option(replace(option, default=default)):
        option = replace(option, default=default)
    fault = fault_of_option(option)
    if fault:
        raise SettingsFault(f"{reader.at}: {fault}")
    return option


@dataclass(frozen=True)
class Refusal:
    """A text in an error that means that an input was not right, and what the job's owner is told."""

    contains: str
    code: str
    message: str


def refusals_of(reader: Reader) -> Sequence[Refusal]:
    """Returns the setting `refusals`. Raises SettingsFault."""
    found = []
    for index, said in enumerate(reader.items("refusals") if "refusals" in reader else ()):
        one = Reader(said, f"{reader.at}.refusals[{index}]", ("contains", "code", "message"))
        refusal = Refusal(one.text("contains"), one.text("code"), one.text("message"))
        if refusal.code not in ERROR_CODES:
            raise SettingsFault(f"{one.at}.code must be one of {', '.join(ERROR_CODES)}")
        found.append(refusal)
    return found


def sample_of(reader: Reader, shape: Shape, folder: str) -> Optional[Tuple[Mapping[str, str], Mapping[str, str]]]:
    """Returns the files and parameters of the setting `sample`; None if there is none. Raises SettingsFault."""
    if "sample" not in reader:
        return None
    said = reader.texts("sample")
    files = {role: os.path.join(folder, path) for role, path in said.items() if role in shape.roles}
    for role in shape.roles:
        if not os.path.isfile(files.get(role, "")):
            raise SettingsFault(f"{reader.at}.sample.{role} must be the path of a file")
    return files, {name: value for name, value in said.items() if name not in shape.roles}


def path_from(name: str) -> str:
    """Returns the path of the settings file that an environment variable names. Raises SettingsFault."""
    path = os.environ.get(name)
    if not path:
        raise SettingsFault(f"set {name} to the path of the settings file")
    return os.path.abspath(path)
