"""Checks an engine class before anything is started, because the agent would only report that GetInfo fails."""

import re
from numbers import Integral, Real
from typing import Optional

from .contract import OPTION_TYPES, Capability, Engine, Limits, Option, Speech, Voice

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")


def fault_of(engine_class) -> Optional[str]:
    """Returns the first fault of the class in one sentence; None if it has none."""
    if not (isinstance(engine_class, type) and issubclass(engine_class, Engine)):
        return f"serve() takes a subclass of Engine, not {engine_class!r}"
    of = engine_class.__name__
    for field in ("name", "version"):
        value = getattr(engine_class, field)
        if not (isinstance(value, str) and value):
            return f"{of}.{field} is {value!r}, not a text of one character or more"
    if not _is_count(engine_class.concurrency):
        return f"{of}.concurrency is {engine_class.concurrency!r}, not a whole number from 1"
    if not _is_size(engine_class.vram_mib):
        return f"{of}.vram_mib is {engine_class.vram_mib!r}, not a whole number from 0"
    offers = engine_class.capabilities
    if not (isinstance(offers, (list, tuple)) and offers):
        return f"{of}.capabilities is {offers!r}, not a list of one Capability or more"
    seen = set()
    for index, offer in enumerate(offers):
        at = f"{of}.capabilities[{index}]"
        if not isinstance(offer, Capability):
            return f'{at} is {offer!r}, not a Capability("…", memory_mib=…)'
        fault = _fault_of_offer(offer)
        if fault:
            return f"{at}.{fault}"
        if offer.name in seen:
            return f"{at}.name is {offer.name!r} once more: no capability twice"
        seen.add(offer.name)
    return None


def _fault_of_offer(offer: Capability) -> Optional[str]:
    if not (isinstance(offer.name, str) and offer.name):
        return f"name is {offer.name!r}, not the name of a capability"
    for field in ("memory_mib", "slots"):
        if not _is_count(getattr(offer, field)):
            return f"{field} is {getattr(offer, field)!r}, not a whole number from 1"
    if not _is_size(offer.vram_mib):
        return f"vram_mib is {offer.vram_mib!r}, not a whole number from 0"
    fault = _fault_of_options(offer.options)
    if fault:
        return f"options{fault}"
    speech = offer.speech
    if speech is not None and not (
        isinstance(speech, Speech)
        and all(isinstance(each, Voice) for each in speech.voices)
        and all(isinstance(each, str) for each in speech.languages)
    ):
        return f'speech is {speech!r}, not Speech([Voice("…", "…")], ["…"])'
    limits = offer.limits
    if not isinstance(limits, Limits):
        return f"limits is {limits!r}, not Limits(…)"
    for field, kind in (("max_input_bytes", Integral), ("max_pixels", Integral), ("max_seconds", Real)):
        value = getattr(limits, field)
        if not (isinstance(value, kind) and value >= 0):
            return f"limits.{field} is {value!r}, not a {'whole ' if kind is Integral else ''}number from 0"
    return None


def _fault_of_options(options) -> Optional[str]:
    if not isinstance(options, (list, tuple)):
        return f" is {options!r}, not a list of Option"
    seen = set()
    for index, option in enumerate(options):
        if not isinstance(option, Option):
            return f'[{index}] is {option!r}, not an Option("…", "integer", "…")'
        fault = fault_of_option(option)
        if fault:
            return f"[{index}].{fault}"
        if option.name in seen:
            return f"[{index}].name is {option.name!r} once more: no option twice"
        seen.add(option.name)
    return None


def fault_of_option(option: Option) -> Optional[str]:
    """Returns the first fault of an option; None if it has none."""
    if not (isinstance(option.name, str) and _NAME.fullmatch(option.name)):
        return f"name is {option.name!r}, not lower-case letters, digits and _"
    if option.type not in OPTION_TYPES:
        return f"type is {option.type!r}, not one of {', '.join(OPTION_TYPES)}"
    if not (isinstance(option.description, str) and option.description.strip() and len(option.description) <= 300):
        return f"description is {option.description!r}, not a sentence of at most 300 characters"
    for field in ("minimum", "maximum"):
        bound = getattr(option, field)
        if bound is not None and (option.type not in ("integer", "number") or not isinstance(bound, Real) or isinstance(bound, bool)):
            return f"{field} is {bound!r}: only an integer or a number has one, and it is a number"
    if option.minimum is not None and option.maximum is not None and option.minimum > option.maximum:
        return f"minimum is {option.minimum!r}, above maximum"
    choices = option.choices
    if option.type == "choice" and not (choices and all(isinstance(each, str) and each for each in choices)):
        return f"choices is {choices!r}, not a list of texts"
    if option.type != "choice" and choices:
        return f"choices is {choices!r}, but the type is {option.type}"
    if not _is_count(option.max_length) or option.max_length > 2000:
        return f"max_length is {option.max_length!r}, not a whole number from 1 to 2000"
    if option.default is not None and not _holds(option, option.default):
        return f"default is {option.default!r}, which is no value of it"
    return None


def _holds(option: Option, value: object) -> bool:
    """Tells whether a value is one of an option."""
    if option.type == "boolean":
        return isinstance(value, bool)
    if option.type == "choice":
        return value in option.choices
    if option.type == "text":
        return isinstance(value, str) and len(value) <= option.max_length
    if isinstance(value, bool) or not isinstance(value, Integral if option.type == "integer" else Real):
        return False
    return (option.minimum is None or value >= option.minimum) and (option.maximum is None or value <= option.maximum)


def _is_size(value: object) -> bool:
    return _is_count(value) or (value == 0 and not isinstance(value, bool))


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1
