"""Converts a sound by a voice of the settings, and says what the voice was fed.

    python rvc_stream.py VOICE SOUND

VOICE is a definition as JSON; SOUND a file of float32 samples at 16 kHz. Prints JSON: `fed`, an entry for each block, and
`made`, the sound that came out.
"""

import json
import sys

import numpy as np
from semblance_sidecars.rvc.models import Voice
from semblance_sidecars.rvc.settings import read_settings
from semblance_sidecars.rvc.voices import Voices

fed = []
plain = Voice.run


def told(model, feeds, start=False):
    if not start and isinstance(model, Voice):
        fed.append({role: np.asarray(feeds[role]).ravel().tolist() for role in model.inputs})
    return plain(model, feeds, start)


Voice.run = told
voices = Voices(read_settings(), 0)
stream = voices.open(json.loads(sys.argv[1]))
sound = np.fromfile(sys.argv[2], np.float32)
# In pieces of other lengths than a block, as an agent sends them.
made = [stream.push(each) for each in np.array_split(sound, max(1, len(sound) // 700))]
print(json.dumps({"fed": fed, "made": np.concatenate(made).tolist()}))
