"""Prints what is said in sounds, a JSON string per line. Arguments: raw files, mono, 16 bits, 16 kHz."""

import array
import json
import os
import sys
from pathlib import Path

from moonshine_voice import ModelArch, Transcriber, get_model_path

# A threshold of 0 takes all sound as speech: a detector of speech would leave words out.
options = {"vad_threshold": "0.0", "identify_speakers": "false"}
recogniser = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY, options=options)
for path in sys.argv[1:]:
    samples = [value / 32_768 for value in array.array("h", Path(path).read_bytes())]
    lines = recogniser.transcribe_without_streaming(samples, 16_000).lines
    print(json.dumps(" ".join(line.text for line in lines)), flush=True)
# The library crashes when it is unloaded, so this process ends without that.
os._exit(0)
