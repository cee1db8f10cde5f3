"""Makes a Python model an engine of Semblance: subclass Engine, then call serve(). See docs/guide/engine-author/engines.md."""

from .contract import (
    Capability,
    Engine,
    Findings,
    Hint,
    Job,
    Limits,
    Model,
    Option,
    RenderError,
    RenderInterrupted,
    Result,
    Speech,
    Voice,
)
from .server import serve

__all__ = [
    "Capability",
    "Engine",
    "Findings",
    "Hint",
    "Job",
    "Limits",
    "Model",
    "Option",
    "RenderError",
    "RenderInterrupted",
    "Result",
    "Speech",
    "Voice",
    "serve",
]
