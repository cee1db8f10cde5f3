"""The settings of the sidecar: servers, and for each capability its workflow and what goes where in it."""

import json
import os
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from urllib.parse import urlsplit

from semblance_sidecar import Capability, Option

from ..jobs import SHAPES, Shape
from ..settings import (
    OFFER,
    OPTION,
    Reader,
    Refusal,
    SettingsFault,
    load,
    offer_of,
    option_of,
    path_from,
    refusals_of,
    sample_of,
)

ENVIRONMENT = "SEMBLANCE_COMFYUI_SETTINGS"
# ComfyUI's own limit of an upload (--max-upload-size), in MiB.
UPLOAD_MIB = 100
# The agent takes no larger file.
OUTPUT_MIB = 2048


@dataclass(frozen=True)
class Slot:
    """An input of a node that a job fills. `values` translates what the job says."""

    node: str
    input: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Recipe:
    """One capability."""

    offer: Capability
    shape: Shape
    name: str
    workflow: Mapping[str, Any]
    inputs: Mapping[str, Sequence[Slot]]
    parameters: Mapping[str, Sequence[Slot]]
    options: Mapping[str, Slot]
    output_node: str
    output_key: Optional[str]
    stages: Mapping[str, str]
    refusals: Sequence[Refusal]
    sample: Optional[Tuple[Mapping[str, str], Mapping[str, str]]]

    def label(self, node: str) -> str:
        """Returns how the owner knows a node: its number, class and title."""
        said = self.workflow.get(node, {})
        title = said.get("_meta", {}).get("title") if isinstance(said.get("_meta"), dict) else None
        named = said.get("class_type", "?")
        return f"node {node} ({named})" if title in (None, named) else f'node {node} ({named}, "{title}")'

    def role_of(self, node: str, name: Optional[str] = None) -> Optional[str]:
        """Returns the input of the job that a node takes; None if it takes none."""
        return _holder(self.inputs, node, name)

    def parameter_of(self, node: str, name: str) -> Optional[str]:
        return _holder(self.parameters, node, name)


@dataclass(frozen=True)
class Server:
    """One ComfyUI. `device` is a text that its device's name must contain."""

    url: str
    device: str


@dataclass(frozen=True)
class Settings:
    path: str
    servers: Sequence[Server]
    recipes: Mapping[str, Recipe]
    output_bytes: int
    patience_s: float
    allow_metadata: bool
    folders: Mapping[str, str]


def read_settings() -> Settings:
    """Returns the settings of the file that SEMBLANCE_COMFYUI_SETTINGS names. Raises SettingsFault."""
    path = path_from(ENVIRONMENT)
    known = ("servers", "capabilities", "output_mib", "patience_s", "allow_metadata", "folders")
    reader = Reader(load(path), os.path.basename(path), known)
    folders = reader.texts("folders")
    for kind, folder in folders.items():
        if kind not in ("input", "output", "temp") or not os.path.isdir(folder):
            raise SettingsFault(f"{reader.at}.folders.{kind}: input, output and temp may be named, as existing folders")
    said = reader.mapping("capabilities")
    recipes = {name: _recipe(name, each, f"{reader.at}.capabilities.{name}", path) for name, each in said.items()}
    if not recipes:
        raise SettingsFault(f"{reader.at}.capabilities names none")
    return Settings(
        path=path,
        servers=[_server(each, f"{reader.at}.servers[{index}]") for index, each in enumerate(reader.items("servers"))],
        recipes=recipes,
        output_bytes=min(OUTPUT_MIB, reader.count("output_mib", OUTPUT_MIB)) << 20,
        patience_s=reader.number("patience_s", 30),
        allow_metadata=reader.flag("allow_metadata"),
        folders=folders,
    )


def _server(said: Any, at: str) -> Server:
    reader = Reader(said, at, ("url", "device"))
    url = reader.text("url").rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise SettingsFault(f"{at}.url must be like http://127.0.0.1:8188")
    return Server(url, reader.text("device", "") if "device" in reader else "")


def _recipe(name: str, said: Any, at: str, path: str) -> Recipe:
    known = ("workflow", "inputs", "parameters", "options", "output", "stages", "refusals", "sample", *OFFER)
    reader = Reader(said, at, known)
    folder = os.path.dirname(path)
    file = os.path.join(folder, reader.text("workflow"))
    workflow = _workflow(file)
    options = _options(reader, workflow)
    offer = offer_of(name, reader, UPLOAD_MIB, [option for option, _ in options])
    shape = SHAPES[name]
    inputs = _slots(reader, "inputs", workflow)
    for role in shape.roles:
        if role not in inputs:
            raise SettingsFault(f"{at}.inputs.{role} is missing: no node takes the {role}")
    for role in inputs:
        if role not in shape.roles:
            raise SettingsFault(f"{at}.inputs.{role}: {name} has only {', '.join(shape.roles)}")
    parameters = _slots(reader, "parameters", workflow)
    for parameter in shape.needs:
        if parameter not in parameters:
            raise SettingsFault(f"{at}.parameters.{parameter} is missing: no node takes the {parameter}")
    output = Reader(reader.mapping("output"), f"{at}.output", ("node", "key"))
    node = str(output.raw("node"))
    _assert_node(workflow, node, output.at)
    return Recipe(
        offer=offer,
        shape=shape,
        name=os.path.splitext(os.path.basename(file))[0],
        workflow=workflow,
        inputs=inputs,
        parameters=parameters,
        options={option.name: slot for option, slot in options},
        output_node=node,
        output_key=output.text("key") if "key" in output else None,
        stages=reader.texts("stages"),
        refusals=refusals_of(reader),
        sample=sample_of(reader, shape, folder),
    )


def _workflow(file: str) -> Mapping[str, Any]:
    try:
        with open(file, encoding="utf-8") as opened:
            said = json.load(opened)
    except OSError as error:
        raise SettingsFault(f"{file} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsFault(f"{file} is no JSON: {error}") from None
    if isinstance(said, dict) and isinstance(said.get("nodes"), list):
        raise SettingsFault(f"{file} is not in API form: export it in ComfyUI with Workflow > Export (API)")
    nodes = said.values() if isinstance(said, dict) else [None]
    if not said or not all(isinstance(node, dict) and _is_node(node) for node in nodes):
        raise SettingsFault(f"{file} is no workflow in API form: every node has class_type and inputs")
    return said


def _is_node(said: Mapping[str, Any]) -> bool:
    return isinstance(said.get("class_type"), str) and isinstance(said.get("inputs"), dict)


def _slots(reader: Reader, name: str, workflow: Mapping[str, Any]) -> Dict[str, List[Slot]]:
    found: Dict[str, List[Slot]] = {}
    for key, said in reader.mapping(name, {}).items():
        at = f"{reader.at}.{name}.{key}"
        each = said if isinstance(said, list) else [said]
        found[str(key)] = [_slot(one, at, workflow) for one in each]
    return found


def _options(reader: Reader, workflow: Mapping[str, Any]) -> List[Tuple[Option, Slot]]:
    """Returns the options, each with the input of a node that it fills; without it the workflow's value stays."""
    found = []
    for name, said in reader.mapping("options", {}).items():
        one = Reader(said, f"{reader.at}.options.{name}", ("node", "input", "values", *OPTION))
        slot = _slot_of(one, workflow)
        own = workflow[slot.node]["inputs"].get(slot.input)
        default = next((key for key, value in slot.values.items() if value == str(own)), None) if slot.values else own
        found.append((option_of(str(name), one, list(slot.values), default), slot))
    return found


def _slot(said: Any, at: str, workflow: Mapping[str, Any]) -> Slot:
    return _slot_of(Reader(said, at, ("node", "input", "values")), workflow)


def _slot_of(reader: Reader, workflow: Mapping[str, Any]) -> Slot:
    at = reader.at
    slot = Slot(str(reader.raw("node")), reader.text("input"), reader.texts("values"))
    _assert_node(workflow, slot.node, at)
    if isinstance(workflow[slot.node]["inputs"].get(slot.input), list):
        raise SettingsFault(f"{at}: another node feeds the input {slot.input} of node {slot.node}")
    return slot


def _assert_node(workflow: Mapping[str, Any], node: str, at: str) -> None:
    if node not in workflow:
        raise SettingsFault(f"{at}: the workflow has no node {node}; it has {', '.join(list(workflow)[:40])}")


def _holder(slots: Mapping[str, Sequence[Slot]], node: str, name: Optional[str]) -> Optional[str]:
    for key, each in slots.items():
        if any(slot.node == node and name in (None, slot.input) for slot in each):
            return key
    return None
