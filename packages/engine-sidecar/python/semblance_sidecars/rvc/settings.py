"""The settings of the sidecar: where the models are, how onnxruntime runs them, and how voices are converted."""

import os
from dataclasses import dataclass
from typing import List, Optional, Sequence

from ..ort.contracts import COUNT, CONTRACTS, OTHERS, SHARE, Contract, Option
from ..ort.manifest import Entry, Kinds, Manifest, read_manifest
from ..ort.settings import RUNNING, Running, folder_of, running_of
from ..settings import Reader, SettingsFault, load, path_from

ENVIRONMENT = "SEMBLANCE_RVC_SETTINGS"
RATES = (32_000, 40_000, 48_000)
# How the pitch is found: by the manifest's RMVPE, or by Praat's autocorrelation, which RVC calls pm.
RMVPE, PM = "rmvpe", "pm"
# Length of the window that the models process, in ms: the default, the longest, and the step between two.
CONTEXT_MS, LONGEST_MS, STEP_MS = 640, 2_560, 320
KNOWN = ("models", *RUNNING, "pitch", "context_ms", "rms_mix_rate", "default")

_VOICE = {
    "sample_rate": Option(RATES, None, required=True),
    "speaker": Option(COUNT, 0),
    "noise": Option(SHARE, 0.66666),
    "interpolate": Option((0, 1), 1),
}
# As packages/engine-onnx/contracts/rvc.ts has them; a test compares.
VOICES = {
    each.name: each
    for each in (
        Contract("rvc_v1", "voice", size=256, options=_VOICE, needs=("contentvec_256",)),
        Contract("rvc_v2", "voice", size=768, options=_VOICE, needs=("contentvec_768",)),
        Contract("contentvec_256", "voice-content-256", size=256),
        Contract("contentvec_768", "voice-content-768", size=768),
        # A default of None: that of the layout.
        Contract("rmvpe", "voice-pitch", options={"threshold": Option(SHARE, None)}),
    )
}
_SWAPS = {name: contract.stage for name, contract in CONTRACTS.items()}
_REST = {name: stage for name, stage in {**_SWAPS, **OTHERS}.items() if name not in VOICES}


def _together(entries: Sequence[Entry]) -> List[str]:
    """Returns the faults of the models as a set."""
    faults = []
    contracts = [entry.contract.name for entry in entries]
    for entry in entries:
        faults += [f"{entry.name} needs a {need}, and the manifest has none" for need in entry.contract.needs if need not in contracts]
    for name in sorted(set(contracts)):
        several = [entry.name for entry in entries if entry.contract.name == name]
        if len(several) > 1 and VOICES[name].stage != "voice":
            faults.append(f"{' and '.join(several)} would both do the stage {VOICES[name].stage}; keep one of them")
    return faults


KINDS = Kinds(VOICES, _REST, _together)


@dataclass(frozen=True)
class Settings:
    folder: str
    manifest: Manifest
    running: Running
    pitch: str
    context_ms: int
    rms_mix_rate: float
    # Name of the model for voices that name none.
    default: Optional[str]


def read_settings() -> Settings:
    """Returns the settings of the file that SEMBLANCE_RVC_SETTINGS names. Raises SettingsFault."""
    path = path_from(ENVIRONMENT)
    here = os.path.dirname(path)
    reader = Reader(load(path), os.path.basename(path), KNOWN)
    folder = folder_of(reader, here)
    running = running_of(reader, here)
    manifest = read_manifest(folder, KINDS)
    voices = [entry.name for entry in manifest.all("voice")]
    if not voices:
        raise SettingsFault(f"{folder} has no voice (rvc_v1 or rvc_v2)")
    context = reader.count("context_ms", CONTEXT_MS)
    if not (CONTEXT_MS <= context <= LONGEST_MS and context % STEP_MS == 0):
        raise SettingsFault(f"{reader.at}.context_ms must be {CONTEXT_MS} to {LONGEST_MS} in steps of {STEP_MS}")
    mix = reader.number("rms_mix_rate", 1)
    if mix > 1:
        raise SettingsFault(f"{reader.at}.rms_mix_rate must be a number from 0 to 1")
    default = reader.text("default") if "default" in reader else None
    if default is not None and default not in voices:
        raise SettingsFault(f"{reader.at}.default is no voice of the manifest: these are {', '.join(voices)}")
    return Settings(folder, manifest, running, _pitch(reader, manifest, folder), context, mix, default)


def _pitch(reader: Reader, manifest: Manifest, folder: str) -> str:
    pitch = reader.text("pitch", RMVPE)
    if pitch not in (RMVPE, PM):
        raise SettingsFault(f"{reader.at}.pitch must be one of {RMVPE}, {PM}")
    if pitch == RMVPE and not manifest.all("voice-pitch"):
        raise SettingsFault(f"{folder} has no rmvpe: add one, or set {reader.at}.pitch to {PM}, which needs praat-parselmouth")
    return pitch
