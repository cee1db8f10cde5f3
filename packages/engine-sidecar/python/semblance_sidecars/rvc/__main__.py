"""`python -m semblance_sidecars.rvc` serves the voices that the file of SEMBLANCE_RVC_SETTINGS names."""

import sys

from semblance_sidecar.live import serve_live

from ..settings import SettingsFault
from .engine import Rvc
from .settings import read_settings

if __name__ == "__main__":
    try:
        settings = read_settings()
    except SettingsFault as fault:
        sys.exit(str(fault))
    for sentence in settings.manifest.left_out:
        print(sentence, flush=True)
    Rvc.slots = len(settings.running.devices)
    serve_live(Rvc)
