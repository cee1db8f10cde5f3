"""`python -m semblance_sidecars.ort` serves the models that the file of SEMBLANCE_ORT_SETTINGS names."""

import sys

from semblance_sidecar import serve

from ..settings import SettingsFault
from .engine import Ort
from .settings import read_settings

if __name__ == "__main__":
    try:
        settings = read_settings()
    except SettingsFault as fault:
        sys.exit(str(fault))
    for sentence in settings.manifest.left_out:
        print(sentence, flush=True)
    Ort.capabilities = settings.offers
    Ort.concurrency = len(settings.running.devices)
    Ort.vram_mib = settings.vram_mib
    serve(Ort)
