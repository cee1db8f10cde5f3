"""Speaks passages of text with espeak-ng and reports when each phoneme begins.

espeak-ng's program gives no times; its library reports them through a callback. The library is under the GPL (version 3
or later). So only this script loads it, in a process of its own that communicates through pipes alone.

    espeak.py --voices        prints the names of the voices, one per line
    espeak.py NAME [OPTION=NUMBER ...]
                              speaks each line of standard input, a JSON string, with the voice NAME; options are `rate`
                              (words per minute), `pitch` (0 to 99) and `pause` (0 for none after the last word)
    espeak.py --phonemes NAME
                              answers each line of standard input, a JSON string, with a line of JSON: its clauses as
                              [[phonemes in IPA, text that ends the clause], ...], for voices that are models

When it speaks, the answer to each line is a line of JSON {"rate", "samples", "phonemes": [[name in IPA, first sample], ...]}, then the
samples: mono, 16 bits, little-endian. Text is plain: SSML and phoneme names in brackets have no meaning.
"""
import ctypes
import json
import sys
import unicodedata

RETRIEVAL, PHONEME_EVENTS, PHONEME_IPA, DONT_EXIT = 1, 0x0001, 0x0002, 0x8000
CHARS_UTF8, POS_CHARACTER, END_PAUSE, PHONEMES_IPA = 1, 1, 0x1000, 2
PARAMETERS = {"rate": 1, "pitch": 3}
EVENT_LIST_TERMINATED, EVENT_PHONEME = 0, 7
# Longest sound of a passage, in seconds; the rest is cut off. No passage needs a quarter of it.
LONGEST = 600


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


class Voice(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("languages", ctypes.c_char_p),
        ("identifier", ctypes.c_char_p),
        ("gender", ctypes.c_ubyte),
        ("age", ctypes.c_ubyte),
        ("variant", ctypes.c_ubyte),
        ("reserved", ctypes.c_ubyte),
        ("score", ctypes.c_int),
        ("spare", ctypes.c_void_p),
    ]


lib = ctypes.CDLL("libespeak-ng.so.1")
RATE = lib.espeak_Initialize(RETRIEVAL, 200, None, PHONEME_EVENTS | PHONEME_IPA | DONT_EXIT)
if RATE <= 0:
    sys.exit("espeak-ng does not start: its data is missing")


def has_voice(name):
    # The name may be that of a language without a voice of the same name.
    by_language = ctypes.byref(Voice(languages=name))
    return lib.espeak_SetVoiceByName(name) == 0 or lib.espeak_SetVoiceByProperties(by_language) == 0


if sys.argv[1] == "--voices":
    lib.espeak_ListVoices.restype = ctypes.POINTER(ctypes.POINTER(Voice))
    voices = lib.espeak_ListVoices(None)
    names, i = [], 0
    while voices[i]:
        # `languages` is a priority byte, then the name of the language.
        names.append(voices[i].contents.languages[1:].split(b"\0")[0])
        i += 1
    for name in names:
        # espeak-ng lists some voices that it does not find.
        if has_voice(name):
            print(name.decode())
    sys.exit(0)

# Signs that end a clause, after the text that they end; what closes quotes and brackets may follow them.
ENDS = ".?!,:;\u2026\u2014\u2013\u3002\uff0e\uff1f\uff01\uff0c\u3001\uff1a\uff1b\u060c\u061b\u061f\u06d4\u0964\u0965\u00b7"


def end_of(clause, last):
    """Returns the sign that ends a clause, or nothing. espeak-ng reads one sign further, except at the text's end."""
    text = clause.rstrip()
    if not last and text and text[-1] not in ENDS:
        text = text[:-1].rstrip()
    # Ps, Pe, Pi, Pf: signs that open and close; ASCII quotes are Po.
    while text and (unicodedata.category(text[-1]) in ("Ps", "Pe", "Pi", "Pf") or text[-1] in "\"'"):
        text = text[:-1].rstrip()
    return text[-1] if text and text[-1] in ENDS else ""


def clauses_of(text):
    """Returns [phonemes, end] of each clause."""
    lib.espeak_TextToPhonemes.restype = ctypes.c_char_p
    lib.espeak_TextToPhonemes.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, ctypes.c_int]
    size = len(text)
    buffer = ctypes.create_string_buffer(text + b"\0")
    start = ctypes.addressof(buffer)
    at, found = ctypes.c_void_p(start), []
    while at.value:
        before = at.value - start
        spoken = lib.espeak_TextToPhonemes(ctypes.byref(at), CHARS_UTF8, PHONEMES_IPA) or b""
        after = size if at.value is None else at.value - start
        clause = buffer.raw[before:after].decode("utf-8", "ignore")
        found.append([spoken.decode("utf-8", "ignore"), end_of(clause, at.value is None)])
    return found


if sys.argv[1] == "--phonemes":
    if not has_voice(sys.argv[2].encode()):
        sys.exit("espeak-ng has no voice of this name")
    for line in sys.stdin.buffer:
        found = clauses_of(json.loads(line).encode("utf-8", "ignore"))
        sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
        sys.stdout.buffer.flush()
    sys.exit(0)

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
    return 1 if len(samples) > LONGEST * RATE * 2 else 0


lib.espeak_SetSynthCallback(callback)
name = sys.argv[1].encode()
manner = {key: int(value) for key, value in (option.split("=") for option in sys.argv[2:])}
flags = CHARS_UTF8 | (END_PAUSE if manner.get("pause", 1) else 0)


def set_voice():
    if not has_voice(name):
        sys.exit("espeak-ng has no voice of this name")
    for key, number in PARAMETERS.items():
        if key in manner:
            lib.espeak_SetParameter(number, manner[key], 0)


for line in sys.stdin.buffer:
    samples.clear()
    phonemes.clear()
    # The noise in some voices continues from the passage before, so each passage sets the voice anew.
    set_voice()
    text = json.loads(line).encode("utf-8", "ignore") + b"\0"
    if lib.espeak_Synth(text, len(text), 0, POS_CHARACTER, 0, flags, None, None) != 0:
        sys.exit("espeak-ng refused a text")
    lib.espeak_Synchronize()
    head = {"rate": RATE, "samples": len(samples) // 2, "phonemes": phonemes}
    sys.stdout.buffer.write(json.dumps(head).encode() + b"\n" + samples)
    sys.stdout.buffer.flush()
