"""What the sidecar `ort` runs of a manifest, and how the models of a swap must fit together."""

from typing import Dict, List, Sequence

from .contracts import CONTRACTS, OTHERS
from .manifest import Entry, Kinds


def together(entries: Sequence[Entry]) -> List[str]:
    """Returns the faults of the models as a set."""
    faults = []
    contracts = {entry.contract.name for entry in entries}
    stages: Dict[str, List[Entry]] = {}
    for entry in entries:
        stage = entry.contract.name if entry.contract.stage == "converter" else entry.contract.stage
        stages.setdefault(stage, []).append(entry)
        for need in entry.contract.needs:
            if need not in contracts:
                faults.append(f"{entry.name} needs a {need}, and the manifest has none")
        if entry.options.get("mask") == "parser" and not any(each.contract.stage == "parser" for each in entries):
            faults.append(f"{entry.name} needs a parser for its mask, and the manifest has none")
    for stage, several in stages.items():
        if len(several) > 1 and stage not in ("swapper", "enhancer"):
            faults.append(f"{' and '.join(each.name for each in several)} would both do the stage {stage}; keep one of them")
        for each in several[:-1] if stage in ("swapper", "enhancer") else ():
            if each.options["min_face"] == 0 and each.options["max_face"] == 65_535:
                faults.append(f"{each.name} takes every face, so the next {stage} is never used; give it min_face or max_face")
    return faults


def options_left_out(entries: Sequence[Entry]) -> List[str]:
    said = [
        f"{entry.name}: its expression of {entry.options['expression']:g} is left out, because LivePortrait is not run"
        for entry in entries
        if entry.options.get("expression", 0) > 0
    ]
    matched = [entry.name for entry in entries if entry.options.get("match", 0) > 0]
    if matched:
        said.append(f"{', '.join(matched)}: match is applied to light only, not to grain")
    return said


SWAPS = Kinds(CONTRACTS, OTHERS, together)
