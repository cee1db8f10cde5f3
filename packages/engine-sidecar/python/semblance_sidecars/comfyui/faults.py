"""Tells whose fault an error of ComfyUI is: of an input, of the owner's workflow, or of the moment."""

import sys
from typing import Any, Mapping

from semblance_sidecar import RenderError, RenderInterrupted

from ..momentary import MOMENTARY
from .settings import Recipe


class WorkflowFault(Exception):
    """The owner's workflow or ComfyUI does not fit. The message names the node, and goes to the log."""


def of_execution(said: Mapping[str, Any], recipe: Recipe) -> Exception:
    """Returns the error for ComfyUI's message `execution_error`."""
    node = str(said.get("node_id"))
    kind, text = str(said.get("exception_type", "")), str(said.get("exception_message", "")).strip()
    where = f"workflow {recipe.name}, {recipe.label(node)}"
    what = f"{where}: {kind}: {text}"
    if MOMENTARY.search(f"{kind} {text}"):
        return RenderInterrupted(what)
    for refusal in recipe.refusals:
        if refusal.contains.lower() in text.lower():
            return _refused(refusal.code, refusal.message, what)
    role = recipe.role_of(node)
    if role is not None:
        return _refused("unsupported_format", f"The {role.replace('_', ' ')} cannot be read.", what)
    return WorkflowFault(what)


def of_prompt(status: int, said: Any, recipe: Recipe) -> Exception:
    """Returns the error for a prompt that ComfyUI did not take, with its `error` and `node_errors`."""
    said = said if isinstance(said, dict) else {}
    nodes = said.get("node_errors")
    if isinstance(nodes, dict) and nodes:
        return of_node_errors(nodes, recipe)
    error = said.get("error")
    if isinstance(error, dict):
        error = f"{error.get('message')} {error.get('details', '')}".strip()
    return WorkflowFault(f"workflow {recipe.name}: ComfyUI refused it with {status}: {error}")


def of_node_errors(nodes: Mapping[str, Any], recipe: Recipe) -> Exception:
    """Returns the error for `node_errors`, which maps nodes to what is wrong with their inputs."""
    faults = []
    for node, each in nodes.items():
        errors = each.get("errors", []) if isinstance(each, dict) else []
        for error in errors:
            name = str((error.get("extra_info") or {}).get("input_name", ""))
            text = f"{recipe.label(str(node))}: {error.get('message')}: {error.get('details')}"
            faults.append((str(node), name, text))
    what = f"workflow {recipe.name}, " + "; ".join(text for _, _, text in faults)
    # An input of the job is at fault only if nothing else is.
    owners = [recipe.role_of(node, name) or recipe.parameter_of(node, name) for node, name, _ in faults]
    if faults and all(owners):
        node, name, _ = faults[0]
        if recipe.role_of(node, name):
            return _refused("unsupported_format", f"The {owners[0].replace('_', ' ')} cannot be read.", what)
        return _refused("processing_failed", f"The engine does not take this {owners[0].replace('_', ' ')}.", what)
    return WorkflowFault(what)


def _refused(code: str, message: str, what: str) -> RenderError:
    print(f"refused with {code}: {what}", file=sys.stderr)
    return RenderError(code, message)
