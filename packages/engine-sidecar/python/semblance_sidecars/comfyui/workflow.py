"""Checks a workflow against what a ComfyUI knows, and fills it for a job."""

import copy
from typing import Any, Dict, List, Mapping, Optional

from semblance_sidecar import RenderError
from semblance_sidecar.contract import Value

from .faults import WorkflowFault
from .settings import Recipe, Slot

Nodes = Mapping[str, Mapping[str, Any]]


def fault_of(recipe: Recipe, nodes: Nodes) -> Optional[str]:
    """Returns the first thing in a workflow that ComfyUI does not know, in one sentence; None if it knows all.

    `nodes` maps the classes of the workflow to what /object_info says of them; {} for an unknown one.
    """
    for node, said in recipe.workflow.items():
        label = f"workflow {recipe.name}, {recipe.label(node)}"
        info = nodes.get(said["class_type"])
        if not info:
            return f"{label}: ComfyUI has no such node: install what brings it"
        for name, value in said["inputs"].items():
            options = _options(_spec(info, name))
            given = isinstance(value, list) or recipe.role_of(node, name) or recipe.parameter_of(node, name)
            if options is not None and not given and value not in options:
                return f"{label}: ComfyUI has no {value!r} for {name}: is the file in its models folder?"
    for option in recipe.offer.options:
        slot = recipe.options[option.name]
        choices = _options(_spec(nodes[recipe.workflow[slot.node]["class_type"]], slot.input))
        for each in option.choices if choices is not None else ():
            if slot.values.get(each, each) not in choices:
                return f"workflow {recipe.name}, {recipe.label(slot.node)}: ComfyUI has no {slot.values.get(each, each)!r} for {slot.input}"
    for slots in (*recipe.inputs.values(), *recipe.parameters.values(), *([slot] for slot in recipe.options.values())):
        for slot in slots:
            said = recipe.workflow[slot.node]
            if slot.input not in said["inputs"] and _spec(nodes[said["class_type"]], slot.input) is None:
                return f"workflow {recipe.name}, {recipe.label(slot.node)} has no input {slot.input}"
    if not nodes[recipe.workflow[recipe.output_node]["class_type"]].get("output_node"):
        return f"workflow {recipe.name}, {recipe.label(recipe.output_node)} saves nothing: name a node that does as output"
    return None


def fill(
    recipe: Recipe, nodes: Nodes, files: Mapping[str, str], parameters: Mapping[str, str], options: Mapping[str, Value]
) -> Dict[str, Any]:
    """Returns the workflow with the names of uploads, the parameters and the options of a job. Raises RenderError."""
    prompt = copy.deepcopy(dict(recipe.workflow))
    for role, slots in recipe.inputs.items():
        for slot in slots:
            prompt[slot.node]["inputs"][slot.input] = files[role]
    for name, slots in recipe.parameters.items():
        # A parameter that the job leaves out keeps the workflow's value.
        for slot in slots if name in parameters else ():
            spec = _spec(nodes[prompt[slot.node]["class_type"]], slot.input)
            prompt[slot.node]["inputs"][slot.input] = _value(slot, name, parameters[name], spec)
    for name, value in options.items():
        slot = recipe.options[name]
        prompt[slot.node]["inputs"][slot.input] = slot.values.get(value, value) if isinstance(value, str) else value
    return prompt


def _value(slot: Slot, name: str, said: str, spec: Optional[List[Any]]) -> Any:
    if slot.values and said not in slot.values:
        raise RenderError("processing_failed", f"The engine has no {name.replace('_', ' ')} {said!r}.")
    text = slot.values.get(said, said)
    kind = spec[0] if spec else "STRING"
    try:
        if kind == "INT":
            return int(text)
        if kind == "FLOAT":
            return float(text)
    except ValueError:
        raise WorkflowFault(f"{name}: {text!r} is no {kind} for the input {slot.input} of node {slot.node}") from None
    if kind == "BOOLEAN":
        return text.lower() in ("true", "1", "yes", "on")
    return text


def _spec(info: Mapping[str, Any], name: str) -> Optional[List[Any]]:
    """Returns what a class says of an input: its type or its choices, then more about it."""
    inputs = info.get("input", {})
    for group in ("required", "optional"):
        found = (inputs.get(group) or {}).get(name)
        if isinstance(found, list) and found:
            return found
    return None


def _options(spec: Optional[List[Any]]) -> Optional[List[Any]]:
    """Returns the choices of an input: of the older kind ([[…], {}]) and the newer (["COMBO", {"options": […]}])."""
    if not spec:
        return None
    more = spec[1] if len(spec) > 1 and isinstance(spec[1], dict) else {}
    # What may be uploaded may also lie in a folder below, which the list lacks.
    if any(name.endswith("_upload") for name in more) or more.get("remote"):
        return None
    if isinstance(spec[0], list):
        return spec[0]
    return more.get("options") if spec[0] == "COMBO" and isinstance(more.get("options"), list) else None
