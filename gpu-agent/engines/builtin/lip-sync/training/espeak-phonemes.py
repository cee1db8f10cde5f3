"""Speaks lines of text with the espeak-ng library and says when each phoneme begins.

Reads from standard input one JSON object a line: {"voice", "text", "rate", "pitch", "wav"}; writes the sound to the file
`wav` and one JSON line: {"rate", "phonemes": [[name, start in samples], ...]}. A process of its own, because the library
is under the GPL and because it says the times through a callback only.
"""
import ctypes
import json
import sys
import wave

EVENT_LIST_TERMINATED, EVENT_PHONEME = 0, 7


class Identity(ctypes.Union):
    _fields_ = [("number", ctypes.c_int), ("name", ctypes.c_char_p), ("string", ctypes.c_char * 8)]


class Event(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", Identity),
    ]


lib = ctypes.CDLL("libespeak-ng.so.1")
# Retrieval without playback, 200 ms pieces, phoneme events as IPA.
RATE = lib.espeak_Initialize(2, 200, None, 0x0003)
samples, phonemes = bytearray(), []


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))
def callback(wav, count, events):
    if wav and count > 0:
        samples.extend(ctypes.string_at(wav, count * 2))
    i = 0
    while events and events[i].type != EVENT_LIST_TERMINATED:
        if events[i].type == EVENT_PHONEME:
            phonemes.append([events[i].id.string.decode("utf-8", "ignore"), events[i].sample])
        i += 1
    return 0


lib.espeak_SetSynthCallback(callback)
for line in sys.stdin:
    job = json.loads(line)
    samples.clear()
    phonemes.clear()
    if lib.espeak_SetVoiceByName(job["voice"].encode()) != 0:
        sys.exit("no voice " + job["voice"])
    lib.espeak_SetParameter(1, job["rate"], 0)
    lib.espeak_SetParameter(3, job["pitch"], 0)
    text = job["text"].encode() + b"\0"
    lib.espeak_Synth(text, len(text), 0, 1, 0, 1, None, None)
    lib.espeak_Synchronize()
    with wave.open(job["wav"], "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE)
        out.writeframes(bytes(samples))
    print(json.dumps({"rate": RATE, "phonemes": phonemes}), flush=True)
