"""Opens models with onnxruntime: what was hashed, on the providers that were named, within limits of memory."""

import hashlib
from typing import Any, List, Mapping, Optional, Sequence, Tuple

import onnxruntime
from semblance_sidecar import RenderInterrupted

from .graph import ModelFault, parse
from .providers import Passed, missing, passed
from .settings import Arena, Running

# What onnxruntime says when an arena is at its limit.
AT_LIMIT = "is smaller than requested bytes"
# The arena of the CPU is shared by the sessions of a process, and can be made once.
_made: List[Arena] = []


def prepare(running: Running) -> None:
    """Prepares this process for the providers, and makes its arena with its limit. Raises ModelFault."""
    if lacks := missing(running.providers, onnxruntime.get_available_providers()):
        raise ModelFault(lacks)
    if set(running.providers) != {"cpu"}:
        # Those of NVIDIA's packages beside it, which the loader does not find by itself.
        onnxruntime.preload_dlls()
    if running.arena is None or _made:
        return
    allocator = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    info = onnxruntime.OrtMemoryInfo("Cpu", allocator, 0, onnxruntime.OrtMemType.DEFAULT)
    limits = {"max_mem": running.arena.max_bytes, "arena_extend_strategy": running.arena.extension}
    onnxruntime.create_and_register_allocator(info, onnxruntime.OrtArenaCfg(limits))
    _made.append(running.arena)


def read_file(path: str, sha256: str) -> bytes:
    """Returns a file with this hash. Raises ModelFault."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise ModelFault(f"the file cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(data).hexdigest()
    if digest != sha256:
        raise ModelFault(f"sha256: expected {sha256}, found {digest}")
    return data


def read_model(path: str, sha256: str) -> Tuple[bytes, Any]:
    """Returns a model's bytes, and its graph. Raises ModelFault."""
    data = read_file(path, sha256)
    return data, parse(data)


def open_session(data: bytes, running: Running, device: int) -> Tuple[onnxruntime.InferenceSession, onnxruntime.RunOptions]:
    """Opens a model from memory, so that what is loaded is what was hashed. Raises ModelFault."""
    wanted = passed(running.providers, device)
    options, run = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    options.intra_op_num_threads = running.threads
    # Errors only: warnings tell of nodes that a provider left to another one, for each model at each start.
    options.log_severity_level = 3
    if running.arena:
        options.add_session_config_entry("session.use_env_allocators", "1")
    if running.shrink_memory:
        run.add_run_config_entry("memory.enable_memory_arena_shrinkage", shrunk(running.providers, device))
    try:
        session = onnxruntime.InferenceSession(data, options, providers=wanted)
    except Exception as error:
        raise at_start(error) from None
    session.disable_fallback()
    if lost := _lost(wanted, session.get_providers()):
        raise ModelFault(f"{lost} cannot be loaded on device {device}: onnxruntime's message above says why")
    return session, run


def shrunk(providers: Mapping[str, Any], device: int) -> str:
    """Returns which arenas a run shrinks at its end."""
    arenas = [f"gpu:{device}"] if "cuda" in providers else []
    return ";".join([*arenas, "cpu:0"])


def _lost(wanted: Passed, got: Sequence[str]) -> Optional[str]:
    """onnxruntime goes on without a provider that cannot be loaded. This does not."""
    return ", ".join(name for name, _ in wanted if name not in got) or None


def at_start(error: Exception) -> Exception:
    """Returns the fault of a model that cannot be opened or run at its start."""
    text = " ".join(str(error).split())
    if AT_LIMIT in text:
        return ModelFault(f"the limit of memory is too small for it: {text[:300]}")
    return ModelFault(f"onnxruntime cannot run it: {text[:400]}")


def in_run(error: Exception) -> Exception:
    """Returns the error of a run. An arena at its limit is empty again in the next process."""
    text = " ".join(str(error).split())
    # The library knows the texts of a full device.
    return RenderInterrupted(text[:400], reload=True) if AT_LIMIT in text else error
