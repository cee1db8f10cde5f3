"""The owner's manifest of models, as packages/engine-onnx reads it, and what of it this sidecar runs."""

import json
import os
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import yaml

from ..settings import SettingsFault
from .contracts import Contract

NAMES = ("manifest.yaml", "manifest.yml", "manifest.json")
MOST_BYTES = 1 << 20
STEPS = ("swapper", "expression", "enhancer")
# Fields of an entry; those with `True` are required.
FIELDS = {
    **dict.fromkeys(("name", "file", "sha256", "licence", "contract"), True),
    **dict.fromkeys(("url", "index", "beside", "non_commercial", "accepted_by", "options"), False),
}
FORBIDS_COMMERCE = re.compile(
    r"non[- ]?commercial|research[- ]only|researchrail|for research|cc[- ]by[- ]nc|s-lab|no licence stated", re.IGNORECASE
)


@dataclass(frozen=True)
class Entry:
    """One model of the manifest that is run."""

    name: str
    file: str
    path: str
    sha256: str
    licence: str
    contract: Contract
    options: Mapping[str, Any]
    # Path and hash of the features of a voice.
    index: Optional[Tuple[str, str]] = None


@dataclass(frozen=True)
class Kinds:
    """The contracts that a sidecar runs, the stages of all others, and how the models of a manifest must fit together."""

    run: Mapping[str, Contract]
    others: Mapping[str, str]
    together: Callable[[Sequence["Entry"]], List[str]]


@dataclass(frozen=True)
class Manifest:
    entries: Sequence[Entry]
    order: Sequence[str]
    # What is not run, one sentence each.
    left_out: Sequence[str]

    def all(self, stage: str) -> List[Entry]:
        return [entry for entry in self.entries if entry.contract.stage == stage]


def read_manifest(folder: str, kinds: Kinds) -> Manifest:
    """Returns the manifest of a folder. Models are not opened. Raises SettingsFault with all faults in one line."""
    name, said = _document(folder)
    at = os.path.join(folder, name)
    if not isinstance(said, dict) or said.get("version") != 1 or not isinstance(said.get("models"), list) or not said["models"]:
        raise SettingsFault(f"{at} must have version: 1 and a list of models")
    faults = [f"{key} is unknown" for key in said if key not in ("version", "models", "order")]
    order = said.get("order")
    order = list(STEPS) if order is None else order
    if not isinstance(order, list) or sorted(map(str, order)) != sorted(STEPS) or order.index("swapper") > order.index("expression"):
        faults.append(f"order must name each of {', '.join(STEPS)} once, expression after swapper")
        order = list(STEPS)
    entries: List[Entry] = []
    left_out: List[str] = []
    seen = set()
    for number, each in enumerate(said["models"]):
        entry, found = _entry(each, folder, kinds)
        if entry and entry.name in seen:
            found.append("is there twice")
        if entry:
            seen.add(entry.name)
        called = each.get("name") if isinstance(each, dict) else None
        faults += [f"models[{number}]{f' ({called})' if called else ''}: {fault}" for fault in found]
        if entry is None or found:
            continue
        if entry.contract.name in kinds.others:
            left_out.append(f"{entry.name} ({entry.contract.name}) is not run: this sidecar has no stage {entry.contract.stage}")
        else:
            entries.append(entry)
    faults += kinds.together(entries)
    if faults:
        raise SettingsFault(f"{at} does not fit: {'; '.join(faults)}")
    return Manifest(entries, order, left_out)


def _document(folder: str) -> Tuple[str, Any]:
    there = [name for name in NAMES if os.path.exists(os.path.join(folder, name))]
    if len(there) != 1:
        raise SettingsFault(f"{folder} has {' and '.join(there) or 'no manifest'}; it must have one of {', '.join(NAMES)}")
    path = os.path.join(folder, there[0])
    try:
        if os.path.getsize(path) > MOST_BYTES:
            raise SettingsFault(f"{path} is larger than 1 MiB")
        with open(path, encoding="utf-8") as file:
            return there[0], json.load(file) if path.endswith(".json") else yaml.safe_load(file)
    except OSError as error:
        raise SettingsFault(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise SettingsFault(f"{path} cannot be read: {' '.join(str(error).split())[:300]}") from None


def _entry(said: Any, folder: str, kinds: Kinds) -> Tuple[Optional[Entry], List[str]]:
    """Returns an entry, and its faults."""
    if not isinstance(said, dict):
        return None, ["must be a mapping"]
    faults = [f"{key} is unknown" for key in said if key not in FIELDS]
    faults += [f"{key} is missing" for key, needed in FIELDS.items() if needed and key not in said]
    faults += [f"{key} must be a text" for key in FIELDS if FIELDS[key] and key in said and not isinstance(said[key], str)]
    if faults:
        return None, faults
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", said["name"]):
        faults.append('name must be letters, digits, ".", "_" or "-", at most 64')
    if not re.fullmatch(r"[0-9a-fA-F]{64}", said["sha256"]):
        faults.append("sha256 must be 64 hexadecimal digits")
    if not said["licence"].strip() or len(said["licence"]) > 500:
        faults.append("licence must say in at most 500 characters under which licence the weights are used")
    path, fault = _path(folder, said["file"])
    faults += [fault] if fault else []
    known = kinds.run.get(said["contract"])
    if known is None and said["contract"] not in kinds.others:
        return None, [*faults, f"there is no contract {said['contract']}"]
    faults += _licence(said)
    contract = known or Contract(said["contract"], kinds.others[said["contract"]])
    options, found = ({}, []) if known is None else _options(contract, said.get("options"))
    index, lacks = _index(folder, said.get("index"), contract)
    entry = Entry(said["name"], said["file"], path, said["sha256"].lower(), said["licence"].strip(), contract, options, index)
    return entry, [*faults, *found, *lacks]


def _index(folder: str, said: Any, contract: Contract) -> Tuple[Optional[Tuple[str, str]], List[str]]:
    if said is None:
        return None, []
    if contract.stage != "voice":
        return None, [f"only a voice has an index, and {contract.name} is none"]
    file, digest = (said.get("file"), said.get("sha256")) if isinstance(said, dict) else (None, None)
    if not isinstance(file, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", str(digest)):
        return None, ["index must have a file, and as sha256 64 hexadecimal digits"]
    path, fault = _path(folder, file)
    return (path, digest.lower()), [f"index: {fault}"] if fault else []


def _path(folder: str, file: str) -> Tuple[str, Optional[str]]:
    if not file or file.startswith("/") or "\\" in file or "\0" in file or ".." in file.split("/"):
        return "", "file must be a path below the folder of the manifest"
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, file))
    if os.path.commonpath([root, path]) != root:
        return "", f"file is a link that leaves the folder, to {path}"
    return path, None if os.path.isfile(path) else f"there is no file {file}"


def _licence(said: Mapping[str, Any]) -> List[str]:
    marked = said.get("non_commercial")
    if marked is not None and not isinstance(marked, bool):
        return ["non_commercial must be true or false"]
    forbids = bool(FORBIDS_COMMERCE.search(said["licence"])) if marked is None else marked
    by = said.get("accepted_by")
    if by is not None and not (isinstance(by, str) and by.strip()):
        return ["accepted_by must be a text"]
    if forbids and by is None:
        return [f'the licence "{said["licence"]}" forbids commercial use; if yours keeps to it, set accepted_by']
    return []


def _options(contract: Contract, said: Any) -> Tuple[Dict[str, Any], List[str]]:
    said = {} if said is None else said
    if not isinstance(said, dict):
        return {}, ["options must be a mapping"]
    faults = [f"options.{name} is unknown" for name in said if name not in contract.options]
    faults += [f"options.{name} is missing" for name, option in contract.options.items() if option.required and name not in said]
    options = {name: said.get(name, option.default) for name, option in contract.options.items()}
    for name, value in options.items():
        fault = contract.options[name].fault(value) if name in said else None
        faults += [f"options.{name} {fault}"] if fault else []
    if not faults and options.get("min_face", 0) > options.get("max_face", 0):
        faults.append("options.min_face must not be more than max_face")
    return options, faults
