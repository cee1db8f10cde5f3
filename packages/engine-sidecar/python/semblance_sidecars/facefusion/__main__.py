"""`python -m semblance_sidecars.facefusion` serves the FaceFusion of the file that SEMBLANCE_FACEFUSION_SETTINGS names."""

import sys

from semblance_sidecar import serve

from ..settings import SettingsFault
from .engine import FaceFusion
from .settings import read_settings

if __name__ == "__main__":
    try:
        settings = read_settings()
    except SettingsFault as fault:
        sys.exit(str(fault))
    FaceFusion.capabilities = [use.offer for use in settings.uses.values()]
    FaceFusion.concurrency = len(settings.devices)
    serve(FaceFusion)
