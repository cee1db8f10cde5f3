"""Checks an engine class before anything is started, because the agent would only report that GetInfo fails."""

from numbers import Integral, Real
from typing import Optional

from .contract import Capability, Engine, Limits


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
    limits = offer.limits
    if not isinstance(limits, Limits):
        return f"limits is {limits!r}, not Limits(…)"
    for field, kind in (("max_input_bytes", Integral), ("max_pixels", Integral), ("max_seconds", Real)):
        value = getattr(limits, field)
        if not (isinstance(value, kind) and value >= 0):
            return f"limits.{field} is {value!r}, not a {'whole ' if kind is Integral else ''}number from 0"
    return None


def _is_size(value: object) -> bool:
    return _is_count(value) or (value == 0 and not isinstance(value, bool))


def _is_count(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and value >= 1
