"""What a pipeline is made of: its class, its weights and what is added to them, and how it saves memory."""

import os
from dataclasses import dataclass, field
from typing import Any, Optional, Sequence

from ..settings import Reader, SettingsFault

DTYPES = ("float32", "float16", "bfloat16")
OFFLOADS = ("model", "sequential")
# Settings that source_of reads.
FORMS = ("pipeline", "file", "weights", "dtype", "loras", "ip_adapter", "memory")
SAFE = ".safetensors"


@dataclass(frozen=True)
class Adapter:
    """A file of weights that is added to those of the pipeline: a LoRA, or an IP-Adapter with its image encoder."""

    # Its place in the settings, for messages.
    at: str = field(compare=False)
    file: str
    name: str
    licence: str
    scale: float
    encoder: Optional[str] = None


@dataclass(frozen=True)
class Source:
    """A pipeline to load. Capabilities with the same source share one loaded pipeline."""

    pipeline: str
    file: Optional[str]
    folder: str
    name: str
    licence: str
    variant: Optional[str]
    allow_pickle: bool
    dtype: str
    loras: Sequence[Adapter]
    ip_adapter: Optional[Adapter]
    attention_slicing: bool
    vae_tiling: bool
    vae_slicing: bool
    offload: Optional[str]


def source_of(reader: Reader, folder: str) -> Source:
    """Returns the source of a capability. Paths are relative to the folder of the settings. Raises SettingsFault."""
    weights = Reader(reader.mapping("weights"), f"{reader.at}.weights", ("folder", "name", "licence", "variant", "allow_pickle"))
    path = os.path.join(folder, weights.text("folder"))
    if not os.path.isfile(os.path.join(path, "model_index.json")):
        raise SettingsFault(f"{weights.at}.folder: {path} is no folder with a model_index.json; nothing is downloaded")
    pickle = weights.flag("allow_pickle")
    memory = Reader(
        reader.mapping("memory", {}), f"{reader.at}.memory", ("attention_slicing", "vae_tiling", "vae_slicing", "cpu_offload")
    )
    pipeline = reader.text("pipeline")
    if not pipeline.isidentifier():
        raise SettingsFault(f"{reader.at}.pipeline must be the name of a class")
    loras = reader.items("loras") if "loras" in reader else ()
    if "ip_adapter" in reader and memory.flag("attention_slicing"):
        # diffusers takes the attention of the adapter away then, and each render fails.
        raise SettingsFault(f"{memory.at}.attention_slicing does not go with ip_adapter")
    return Source(
        pipeline=pipeline,
        file=_file(reader, "file", folder, ".py") if "file" in reader else None,
        folder=path,
        name=weights.text("name", os.path.basename(os.path.normpath(path))),
        licence=weights.text("licence"),
        variant=weights.text("variant") if "variant" in weights else None,
        allow_pickle=pickle,
        dtype=_one_of(reader, "dtype", DTYPES, "float32"),
        loras=tuple(_adapter(said, f"{reader.at}.loras[{index}]", folder, pickle) for index, said in enumerate(loras)),
        ip_adapter=_adapter(reader.raw("ip_adapter"), f"{reader.at}.ip_adapter", folder, pickle) if "ip_adapter" in reader else None,
        attention_slicing=memory.flag("attention_slicing"),
        vae_tiling=memory.flag("vae_tiling"),
        vae_slicing=memory.flag("vae_slicing"),
        offload=_one_of(memory, "cpu_offload", OFFLOADS, "") if "cpu_offload" in memory else None,
    )


def _adapter(said: Any, at: str, folder: str, pickle: bool) -> Adapter:
    own = ("encoder",) if at.endswith("ip_adapter") else ()
    reader = Reader(said, at, ("file", "name", "licence", "scale", *own))
    file = _file(reader, "file", folder, "" if pickle else SAFE)
    encoder = os.path.join(folder, reader.text("encoder")) if "encoder" in reader else None
    if encoder is not None and not os.path.isdir(encoder):
        raise SettingsFault(f"{at}.encoder: there is no folder {encoder}")
    if encoder is not None and not pickle and not any(name.endswith(SAFE) for name in os.listdir(encoder)):
        raise SettingsFault(f"{at}.encoder must have a {SAFE} file, unless weights.allow_pickle is true")
    name = reader.text("name", os.path.splitext(os.path.basename(file))[0])
    return Adapter(at, file, name, reader.text("licence"), reader.number("scale", 1), encoder)


def _file(reader: Reader, name: str, folder: str, suffix: str) -> str:
    path = os.path.join(folder, reader.text(name))
    if not os.path.isfile(path):
        raise SettingsFault(f"{reader.at}.{name}: there is no file {path}")
    if suffix == SAFE and not path.endswith(suffix):
        raise SettingsFault(f"{reader.at}.{name} must be a {SAFE} file, unless weights.allow_pickle is true")
    if not path.endswith(suffix):
        raise SettingsFault(f"{reader.at}.{name} must be a {suffix} file")
    return path


def _one_of(reader: Reader, name: str, known: Sequence[str], default: str) -> str:
    said = reader.text(name, default)
    if said not in known:
        raise SettingsFault(f"{reader.at}.{name} must be one of {', '.join(known)}")
    return said
