"""Swaps faces by the owner's models, as packages/engine-onnx does for a face without a mesh."""

from dataclasses import dataclass, replace
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from semblance_sidecar import Model

from . import masks
from .contracts import MOST_BOOST, PLAIN_WEIGHT, UNIT, Contract
from .faces import Face, detect, prominent, refine
from .geometry import (
    Mask,
    Transform,
    align,
    blur,
    crop,
    from_interleaved,
    from_planes,
    interleaved,
    join_pixels,
    paste,
    planes,
    resized,
    split_pixels,
)
from .light import matched_light
from .manifest import Entry
from .sessions import Session

# Share of the target's identity at the ends of `weight`.
WEIGHT_REACH = 0.35
# Share of a pixel by which a crop may be coarser than its picture.
SLACK = 0.25
# The input of a DeepFaceLab model is sharpened by this share of its difference to itself, blurred by so many pixels.
SHARPER, SHARPER_REACH = 0.75, 2
MODELS, LICENCE = 16, 200

Step = Callable[[], None]


@dataclass(frozen=True)
class Drawn:
    """A crop that a swapper drew, and the same crop as it was. `field`: where it drew a face."""

    transform: Transform
    image: np.ndarray
    base: np.ndarray
    field: Optional[np.ndarray] = None


class Used:
    """The models that a job was made with."""

    def __init__(self) -> None:
        self.entries: Dict[str, Entry] = {}
        self.makers: Dict[str, List[str]] = {}

    def add(self, session: Session, stage: Optional[str] = None) -> Session:
        entry = session.entry
        self.entries[entry.name] = entry
        makers = self.makers.setdefault(stage or entry.contract.stage, [])
        if entry.name not in makers:
            makers.append(entry.name)
        return session

    @property
    def details(self) -> Dict[str, str]:
        return {stage: f"ort {', '.join(names)}" for stage, names in self.makers.items()}

    @property
    def models(self) -> List[Model]:
        return [Model(each.name, each.sha256, each.licence[:LICENCE]) for each in list(self.entries.values())[:MODELS]]


class FaceSwap:
    def __init__(self, sessions: Sequence[Session], order: Sequence[str]):
        self._sessions = sessions
        self._order = [step for step in order if step != "expression"]

    def _all(self, stage: str) -> List[Session]:
        return [each for each in self._sessions if each.entry.contract.stage == stage]

    def _one(self, stage: str) -> Optional[Session]:
        return next(iter(self._all(stage)), None)

    def _fitting(self, stage: str, width: float) -> Optional[Session]:
        fits = lambda options: options["min_face"] <= width <= options["max_face"]  # noqa: E731
        return next((each for each in self._all(stage) if fits(each.entry.options)), None)

    def look(self, picture: np.ndarray, used: Used, step: Step) -> List[Face]:
        """Returns the faces of a picture, the most prominent first."""
        faces = detect(used.add(self._one("detector")), picture, step)
        landmarks = self._one("landmarks")
        placed = []
        for face in faces:
            step()
            five = refine(used.add(landmarks), picture, face) if landmarks else None
            placed.append(face if five is None else replace(face, five=five))
        return prominent(placed, picture.shape[:2])

    def identity(self, picture: np.ndarray, face: Face, used: Used) -> Mapping[str, np.ndarray]:
        """Returns a source's face in the form that each swapper expects, by its name."""
        sources = {}
        embedding = None
        for swapper in self._all("swapper"):
            contract = swapper.entry.contract
            if contract.identity == "own":
                continue
            if contract.source:
                side, template = contract.source
                plain = Contract("", "", **UNIT)
                sources[swapper.entry.name] = planes(crop(picture, align(face.five, template, side), side, side), plain)
                continue
            embedding = self._embed(picture, face.five, used) if embedding is None else embedding
            sources[swapper.entry.name] = self._form(swapper, embedding, used)
        return sources

    def _embed(self, picture: np.ndarray, five: np.ndarray, used: Used) -> np.ndarray:
        recogniser = used.add(self._one("recogniser"))
        contract = recogniser.entry.contract
        image = crop(picture, align(five, contract.template, contract.size), contract.size, contract.size)
        return recogniser.first({"input": planes(image, contract)})

    def _form(self, swapper: Session, embedding: np.ndarray, used: Used) -> np.ndarray:
        kind = swapper.entry.contract.identity
        if kind == "normalised":
            return normalised(embedding)
        if kind == "emap":
            latent = (normalised(embedding).astype(np.float64) @ swapper.emap.astype(np.float64)).astype(np.float32)
            return normalised(latent) if swapper.entry.options["latent_norm"] == "projected" else latent
        needs = swapper.entry.contract.needs
        converter = next(each for each in self._all("converter") if each.entry.contract.name in needs)
        converted = used.add(converter).first({"input": embedding[None]})
        return normalised(converted) if kind == "converted-normalised" else converted

    def swap(self, picture: np.ndarray, faces: Sequence[Face], sources: Mapping[str, np.ndarray], used: Used, step: Step) -> None:
        """Swaps faces in place."""
        chosen = [self._fitting("swapper", face.width) or self._all("swapper")[-1] for face in faces]
        areas = [self._mask(picture, face, swapper, used, step) for face, swapper in zip(faces, chosen)]
        for each in self._order:
            if each == "enhancer":
                self._enhance(picture, faces, areas, used, step)
                continue
            drawn = []
            for face, swapper in zip(faces, chosen):
                step()
                drawn.append(self._draw(picture, face, used.add(swapper), sources, used))
            areas = [self._within_drawn(*each, used) for each in zip(areas, chosen, drawn)]
            for area, swapper, one in zip(areas, chosen, drawn):
                step()
                lit = matched_light(one.image, one.base, one.transform, area, swapper.entry.options["match"])
                paste(picture, lit, one.transform, masks.within_edge(area, one.transform, lit.shape[1]))

    def _mask(self, picture: np.ndarray, face: Face, swapper: Session, used: Used, step: Step) -> Mask:
        template, whole = swapper.entry.contract.template, swapper.entry.options["mask"] != "oval"
        mask = masks.box_mask(align(face.five, template, 256), 256, masks.BOX if whole else masks.OVAL)
        occlusion, parser = self._one("occlusion"), self._one("parser")
        if occlusion:
            step()
            contract = used.add(occlusion).entry.contract
            transform = align(face.five, template, contract.size)
            image = crop(picture, transform, contract.size, contract.size)
            mask = masks.within_field(mask, transform, masks.occlusion_field(occlusion.first({"input": interleaved(image, contract)})))
        if parser and not whole:
            step()
            size = used.add(parser).entry.contract.size
            # Such networks are trained with this template, independently of the swapper's.
            transform = align(face.five, "ffhq_512", size)
            mask = masks.within_field(mask, transform, self._parsed(parser, crop(picture, transform, size, size)))
        return mask

    def _parsed(self, parser: Session, image: np.ndarray) -> np.ndarray:
        size = parser.entry.contract.size
        return masks.face_field(parser.first({"input": planes(resized(image, size, size), parser.entry.contract)}))

    def _within_drawn(self, mask: Mask, swapper: Session, drawn: Drawn, used: Used) -> Mask:
        if drawn.field is not None:
            mask = masks.within_field(mask, drawn.transform, drawn.field)
        if swapper.entry.options["mask"] != "parser":
            return mask
        field = self._parsed(used.add(self._one("parser")), drawn.image)
        scale = drawn.transform.scale * drawn.image.shape[1] / field.shape[1]
        return masks.within_field(mask, replace(drawn.transform, scale=scale), field)

    def _draw(self, picture: np.ndarray, face: Face, swapper: Session, sources: Mapping[str, np.ndarray], used: Used) -> Drawn:
        contract = swapper.entry.contract
        if contract.identity == "own":
            used.add(swapper, "identity")
            return _draw_dfm(swapper, picture, face.five)
        source = self._aimed(swapper, sources[swapper.entry.name], picture, face.five, used)
        side = _boosted(swapper, align(face.five, contract.template, contract.size))
        transform = align(face.five, contract.template, side)
        base = crop(picture, transform, side, side)
        parts = [
            from_planes(swapper.first({"target": planes(part, contract), "source": source}), contract)
            for part in split_pixels(base, side // contract.size)
        ]
        return Drawn(transform, join_pixels(parts), base)

    def _aimed(self, swapper: Session, source: np.ndarray, picture: np.ndarray, five: np.ndarray, used: Used) -> np.ndarray:
        """Moves an identity towards the target's face, or away from it, as `weight` says."""
        weight = swapper.entry.options.get("weight", PLAIN_WEIGHT)
        if weight == PLAIN_WEIGHT:
            return source
        share = 2 * WEIGHT_REACH * (PLAIN_WEIGHT - weight)
        target = self._embed(picture, five, used)
        own = target if swapper.entry.contract.identity == "converted" else normalised(target)
        return source * np.float32(1 - share) + own * np.float32(share)

    def _enhance(self, picture: np.ndarray, faces: Sequence[Face], areas: Sequence[Mask], used: Used, step: Step) -> None:
        restored: List[Tuple[Session, Transform, np.ndarray, Mask]] = []
        for face, area in zip(faces, areas):
            step()
            enhancer = self._fitting("enhancer", face.width)
            if enhancer is None:
                continue
            contract = used.add(enhancer).entry.contract
            transform = align(face.five, contract.template, contract.size)
            feeds = {"input": planes(crop(picture, transform, contract.size, contract.size), contract)}
            if enhancer.has("weight"):
                feeds["weight"] = np.array(enhancer.entry.options["weight"])
            restored.append((enhancer, transform, from_planes(enhancer.first(feeds), contract), area))
        for enhancer, transform, image, area in restored:
            paste(picture, image, transform, masks.within_edge(area, transform, image.shape[1]), enhancer.entry.options["blend"])


def normalised(vector: np.ndarray) -> np.ndarray:
    return (vector / (np.linalg.norm(vector.astype(np.float64)) or 1)).astype(np.float32)


def _boosted(swapper: Session, plain: Transform) -> int:
    """Returns the side of the crop by `boost`: with `auto` the least that is as fine as the picture."""
    size, boost = swapper.entry.contract.size, swapper.entry.options["boost"]
    if boost != "auto":
        return int(boost)
    return size * min(MOST_BOOST // size, max(1, int(np.ceil(plain.scale - SLACK))))


def _draw_dfm(swapper: Session, picture: np.ndarray, five: np.ndarray) -> Drawn:
    contract, size = swapper.entry.contract, swapper.size
    transform = align(five, contract.template, size)
    base = crop(picture, transform, size, size)
    sharp = np.clip(base + SHARPER * (base - blur(base, SHARPER_REACH)), 0, 255)
    feeds = {"face": interleaved(sharp, contract)}
    if swapper.has("morph"):
        feeds["morph"] = np.array(swapper.entry.options["morph"])
    outputs = swapper.run(feeds)
    field = masks.dfm_field(outputs["target_mask"][0], outputs["face_mask"][0])
    return Drawn(transform, from_interleaved(outputs["face"][0], contract), base, field)
