"""Execution providers of onnxruntime: the options that an owner may set, and the form in which they are passed."""

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..settings import SettingsFault

# What onnxruntime calls a provider.
LONG = {"tensorrt": "TensorrtExecutionProvider", "cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}
SIZE, COUNT, FLAG, FOLDER = "size", "count", "flag", "folder"
# Options by provider, under onnxruntime's own names: what each takes.
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "cuda": {
        "gpu_mem_limit": SIZE,
        "arena_extend_strategy": ("kNextPowerOfTwo", "kSameAsRequested"),
        "cudnn_conv_algo_search": ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
        "cudnn_conv_use_max_workspace": FLAG,
        "do_copy_in_default_stream": FLAG,
        "use_tf32": FLAG,
        "prefer_nhwc": FLAG,
    },
    "tensorrt": {
        "trt_engine_cache_path": FOLDER,
        "trt_timing_cache_path": FOLDER,
        "trt_fp16_enable": FLAG,
        "trt_int8_enable": FLAG,
        "trt_max_workspace_size": SIZE,
        "trt_min_subgraph_size": COUNT,
        "trt_max_partition_iterations": COUNT,
        "trt_builder_optimization_level": COUNT,
        "trt_force_sequential_engine_build": FLAG,
    },
    "cpu": {},
}
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

Passed = List[Tuple[str, Dict[str, str]]]


def bytes_of(value: Any) -> Optional[int]:
    """Returns a size in bytes: a number, or a text such as `6GiB`; None if it is neither."""
    if isinstance(value, bool):
        return None
    found = re.fullmatch(r"(\d+) ?(KiB|MiB|GiB|)", str(value))
    size = int(found[1]) * UNITS[found[2]] if found else 0
    return size or None


def check_providers(said: Mapping[Any, Any], at: str, folder: str) -> Dict[str, Dict[str, str]]:
    """Returns the options of each provider in the form that onnxruntime takes. Raises SettingsFault."""
    if not said:
        raise SettingsFault(f"{at} names none; known are {', '.join(LONG)}")
    checked = {}
    for name, options in said.items():
        if name not in LONG:
            raise SettingsFault(f"{at}.{name} is unknown; known are {', '.join(LONG)}")
        options = {} if options is None else options
        if not isinstance(options, dict):
            raise SettingsFault(f"{at}.{name} must be a mapping of options")
        checked[name] = dict(_option(name, option, value, f"{at}.{name}.{option}", folder) for option, value in options.items())
    if "cpu" in checked and list(checked)[-1] != "cpu":
        raise SettingsFault(f"{at}: cpu takes everything, so what follows it is never used")
    if "tensorrt" in checked and "trt_engine_cache_path" not in checked["tensorrt"]:
        raise SettingsFault(f"{at}.tensorrt.trt_engine_cache_path is missing: without it each start builds every engine anew")
    return checked


def _option(provider: str, name: Any, value: Any, at: str, folder: str) -> Tuple[str, str]:
    kind = OPTIONS[provider].get(name)
    if kind is None:
        known = ", ".join(OPTIONS[provider]) or "none"
        raise SettingsFault(f"{at} is unknown; known are {known}")
    if isinstance(kind, tuple):
        if value not in kind:
            raise SettingsFault(f"{at} must be one of {', '.join(kind)}")
        return name, value
    if kind == FLAG:
        if not isinstance(value, bool):
            raise SettingsFault(f"{at} must be true or false")
        return name, str(int(value))
    if kind == FOLDER:
        path = os.path.join(folder, value) if isinstance(value, str) and value else ""
        if not (os.path.isdir(path) and os.access(path, os.W_OK)):
            raise SettingsFault(f"{at} must be a folder that can be written to")
        return name, path
    size = bytes_of(value) if kind == SIZE else value
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise SettingsFault(f"{at} must be {'a size such as 6GiB' if kind == SIZE else 'a whole number from 0'}")
    return name, str(size)


def passed(providers: Mapping[str, Mapping[str, str]], device: int) -> Passed:
    """Returns the providers as a session gets them, for one device."""
    out: Passed = []
    for name, options in providers.items():
        whole = dict(options)
        if name != "cpu":
            whole["device_id"] = str(device)
        if name == "tensorrt":
            whole["trt_engine_cache_enable"] = "1"
            if "trt_timing_cache_path" in whole:
                whole["trt_timing_cache_enable"] = "1"
        out.append((LONG[name], whole))
    return out


def missing(providers: Sequence[str], available: Sequence[str]) -> Optional[str]:
    """Returns a sentence about a provider that this onnxruntime was built without; None if it has all."""
    for name in providers:
        if LONG[name] not in available:
            return f"onnxruntime here is built without {name}: it has {', '.join(available)}; onnxruntime-gpu has cuda and tensorrt"
    return None
