"""`python -m semblance_sidecars.diffusers` serves the pipelines of the file that SEMBLANCE_DIFFUSERS_SETTINGS names."""

import sys

from semblance_sidecar import serve

from ..settings import SettingsFault
from .engine import Diffusers
from .settings import read_settings

if __name__ == "__main__":
    try:
        settings = read_settings()
    except SettingsFault as fault:
        sys.exit(str(fault))
    Diffusers.capabilities = [use.offer for use in settings.uses.values()]
    Diffusers.concurrency = len(settings.devices)
    Diffusers.vram_mib = settings.vram_mib
    serve(Diffusers)
