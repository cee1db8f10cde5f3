"""Tells whose fault an error of a pipeline is: of an input, of the owner's settings, or of the moment."""

import sys
from typing import Sequence

from semblance_sidecar import RenderError, RenderInterrupted

from ..momentary import MOMENTARY
from ..settings import Refusal


class PipelineFault(Exception):
    """The pipeline does not do what the settings say. The message names the setting, and goes to the log."""


def of_error(error: Exception, at: str, refusals: Sequence[Refusal] = ()) -> Exception:
    """Returns what an error of a pipeline means. `at` is the place of its settings."""
    if isinstance(error, (RenderError, RenderInterrupted, PipelineFault)):
        return error
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if isinstance(error, MemoryError) or MOMENTARY.search(what):
        # What the process took of the card is free only when it ends.
        hint = f"{at}.size.pixels, .frames.most, .dtype and .memory say how much memory it takes"
        return RenderInterrupted(f"{what}; {hint}", reload=True)
    for refusal in refusals:
        if refusal.contains.lower() in what.lower():
            print(f"refused with {refusal.code}: {at}: {what}", file=sys.stderr)
            return RenderError(refusal.code, refusal.message)
    return PipelineFault(f"{at}: {what}")
