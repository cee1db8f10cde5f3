"""The settings of the sidecar: where the models are, and how onnxruntime runs them."""

import os
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Sequence

from semblance_sidecar import Capability

from ..jobs import SHAPES
from ..settings import OFFER, Reader, SettingsFault, load, offer_of, path_from
from .kinds import SWAPS, options_left_out
from .manifest import Manifest, read_manifest
from .providers import bytes_of, check_providers

ENVIRONMENT = "SEMBLANCE_ORT_SETTINGS"
# The largest input that the agent brings unless the settings say less, in MiB.
INPUT_MIB = 2048
CAPABILITIES = ("face-swap-image", "face-swap")
RUNNING = ("providers", "devices", "workers", "threads", "cpu_arena", "shrink_memory")
KNOWN = ("models", *RUNNING, "vram_mib", "capabilities")
EXTENSIONS = {"kNextPowerOfTwo": 0, "kSameAsRequested": 1}


@dataclass(frozen=True)
class Arena:
    """Memory on the CPU that all models of a worker share."""

    max_bytes: int
    # As onnxruntime numbers it.
    extension: int


@dataclass(frozen=True)
class Running:
    """How onnxruntime runs models."""

    # By provider in order of preference, the options that its sessions get.
    providers: Mapping[str, Dict[str, str]]
    # The device of each worker.
    devices: Sequence[int]
    threads: int
    arena: Optional[Arena]
    shrink_memory: bool


@dataclass(frozen=True)
class Settings:
    folder: str
    manifest: Manifest
    running: Running
    vram_mib: int
    offers: Sequence[Capability]


def read_settings() -> Settings:
    """Returns the settings of the file that SEMBLANCE_ORT_SETTINGS names. Raises SettingsFault."""
    path = path_from(ENVIRONMENT)
    here = os.path.dirname(path)
    reader = Reader(load(path), os.path.basename(path), KNOWN)
    folder = folder_of(reader, here)
    said = reader.mapping("capabilities")
    if not said:
        raise SettingsFault(f"{reader.at}.capabilities names none")
    offers = [_offer(name, each, f"{reader.at}.capabilities.{name}") for name, each in said.items()]
    manifest = read_manifest(folder, SWAPS)
    manifest = replace(manifest, left_out=[*manifest.left_out, *options_left_out(manifest.entries)])
    for stage in ("detector", "swapper"):
        if not manifest.all(stage):
            raise SettingsFault(f"{folder} has no model for the stage {stage}, without which this sidecar swaps no face")
    return Settings(
        folder=folder,
        manifest=manifest,
        running=running_of(reader, here),
        vram_mib=reader.count("vram_mib", 0, 0),
        offers=offers,
    )


def folder_of(reader: Reader, here: str) -> str:
    folder = os.path.join(here, reader.text("models"))
    if not os.path.isdir(folder):
        raise SettingsFault(f"{reader.at}.models: there is no folder {folder}")
    return folder


def running_of(reader: Reader, here: str) -> Running:
    """Returns how the settings, in the folder `here`, let models run. Raises SettingsFault."""
    providers = check_providers(reader.mapping("providers", {"cpu": {}}), f"{reader.at}.providers", here)
    devices = reader.items("devices", [0])
    if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in devices):
        raise SettingsFault(f"{reader.at}.devices must be numbers of devices from 0")
    if "devices" in reader and set(providers) == {"cpu"}:
        raise SettingsFault(f"{reader.at}.devices are of cuda and tensorrt; workers says how many run on the CPU")
    return Running(
        providers=providers,
        devices=[each for each in devices for _ in range(reader.count("workers", 1))],
        threads=reader.count("threads", 0, 0),
        arena=_arena(reader),
        shrink_memory=reader.flag("shrink_memory"),
    )


def _offer(name: str, said: Any, at: str) -> Capability:
    if name in SHAPES and name not in CAPABILITIES:
        raise SettingsFault(f"{at}: this sidecar has only {', '.join(CAPABILITIES)}")
    return offer_of(name, Reader(said, at, OFFER), INPUT_MIB)


def _arena(reader: Reader) -> Optional[Arena]:
    if "cpu_arena" not in reader:
        return None
    of = Reader(reader.mapping("cpu_arena"), f"{reader.at}.cpu_arena", ("limit", "arena_extend_strategy"))
    limit = bytes_of(of.raw("limit")) if "limit" in of else None
    if limit is None:
        raise SettingsFault(f"{of.at}.limit must be a size such as 6GiB")
    extension = of.text("arena_extend_strategy", "kNextPowerOfTwo")
    if extension not in EXTENSIONS:
        raise SettingsFault(f"{of.at}.arena_extend_strategy must be one of {', '.join(EXTENSIONS)}")
    return Arena(limit, EXTENSIONS[extension])
