"""The contracts of models that this sidecar runs, as packages/engine-onnx/contracts has them; a test compares.

Sizes of tensors are numbers, `BATCH` (1, or left open by the file) or `ANY`.
"""

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

BATCH = "batch"
ANY = "any"
STRIDES = (8, 16, 32)
EMBEDDING = 512
PARSER_CLASSES = 19
ARCFACE = "arcface_w600k_r50"
# Largest side of a crop that a swapper draws in parts.
MOST_BOOST = 1024
# The value of `weight` that leaves an identity as it is.
PLAIN_WEIGHT = 0.5

ZERO, ONE, HALF = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5)
UNIT = {"mean": ZERO, "deviation": ONE}
SIGNED = {"mean": HALF, "deviation": HALF}
IMAGENET = {"mean": (0.485, 0.456, 0.406), "deviation": (0.229, 0.224, 0.225)}


@dataclass(frozen=True)
class Option:
    """One option. `kind` is `share`, `count`, `size` or a tuple of values; a default of None: the file says it."""

    kind: Union[str, Tuple[Any, ...]]
    default: Any
    # Of a `size`: least, most and step.
    bounds: Tuple[int, int, int] = (0, 0, 1)
    required: bool = False

    def fault(self, value: Any) -> Optional[str]:
        """Returns what the value must be, if it is not that."""
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        whole = number and float(value).is_integer()
        if isinstance(self.kind, tuple):
            known = value in self.kind and not isinstance(value, bool)
            return None if known else f"must be one of {', '.join(map(str, self.kind))}"
        if self.kind == "share":
            return None if number and 0 <= value <= 1 else "must be a number from 0 to 1"
        if self.kind == "count":
            return None if whole and value >= 0 else "must be a whole number from 0"
        least, most, step = self.bounds
        fits = whole and least <= value <= most and value % step == 0
        auto = self.kind == "size or auto"
        if fits or (auto and value == "auto"):
            return None
        return f"must be {'auto or ' if auto else ''}a multiple of {step} from {least} to {most}"


@dataclass(frozen=True)
class Tensor:
    """A tensor of a contract. `free`: the file may use any name, and its position counts."""

    name: str
    dims: Sequence[Any]
    free: bool = True
    optional: bool = False
    # Other shapes that are taken, such as one without the batch.
    otherwise: Sequence[Sequence[Any]] = ()
    # Whether some values may be infinite or NaN, because only a few are used.
    partly: bool = False


@dataclass(frozen=True)
class Contract:
    name: str
    stage: str
    size: Optional[int] = None
    template: Optional[str] = None
    mean: Tuple[float, float, float] = ZERO
    deviation: Tuple[float, float, float] = ONE
    denormalise: bool = False
    order: str = "rgb"
    identity: Optional[str] = None
    # Of a swapper that takes a picture: side and template of that.
    source: Optional[Tuple[int, str]] = None
    options: Mapping[str, Option] = field(default_factory=dict)
    needs: Sequence[str] = ()


SHARE, COUNT = "share", "count"
FACE_SIZE = {"min_face": Option(COUNT, 0), "max_face": Option(COUNT, 65_535)}
SWAPPER = {"mask": Option(("oval", "box", "parser"), "oval"), "match": Option(SHARE, 1), "expression": Option(SHARE, 0), **FACE_SIZE}


def _boost(size: int) -> Dict[str, Option]:
    return {"boost": Option("size or auto", size, (size, MOST_BOOST, size))}


def _detector(name: str, score: float, **traits) -> Contract:
    options = {"size": Option("size", None, (128, 2048, 32)), "score": Option(SHARE, score)}
    return Contract(name, "detector", options=options, **traits)


def _swapper(name: str, size: int, identity: str, converter: Sequence[str] = (), **traits) -> Contract:
    options = {**SWAPPER, **_boost(size), "weight": Option(SHARE, PLAIN_WEIGHT)}
    if identity == "emap":
        options["latent_norm"] = Option(("embedding", "projected"), "embedding")
    return Contract(name, "swapper", size=size, identity=identity, options=options, needs=(ARCFACE, *converter), **traits)


def _from_picture(name: str, source: Tuple[int, str], **traits) -> Contract:
    options = {**SWAPPER, **_boost(256)}
    return Contract(name, "swapper", size=256, template="ffhq_512", identity="picture", source=source, options=options, **traits)


def _enhancer(name: str, size: int, template: str = "ffhq_512") -> Contract:
    options = {"blend": Option(SHARE, 0.8), "weight": Option(SHARE, 0.5), **FACE_SIZE}
    return Contract(name, "enhancer", size=size, template=template, denormalise=True, options=options, **SIGNED)


_ANCHORED = {"mean": (127.5 / 255,) * 3, "deviation": (128 / 255,) * 3}
_HYPERSWAP = {"template": "arcface_128", "denormalise": True, **SIGNED}
_GHOST = {"template": "arcface_112_v1", "denormalise": True, **SIGNED}

_ALL: List[Contract] = [
    _detector("scrfd_2.5g", 0.5, **_ANCHORED),
    _detector("retinaface_10g", 0.5, **_ANCHORED),
    _detector("yoloface_8n", 0.5, **UNIT),
    _detector("yunet_2023_mar", 0.7, mean=ZERO, deviation=(1 / 255,) * 3, order="bgr"),
    Contract("2dfan4", "landmarks", size=256, options={"score": Option(SHARE, 0.5)}, **UNIT),
    Contract(ARCFACE, "recogniser", size=112, template="arcface_112_v2", **SIGNED),
    *(Contract(name, "converter", needs=(ARCFACE,)) for name in ("crossface_ghost", "crossface_hififace", "crossface_simswap")),
    *(_swapper(name, 128, "emap", template="arcface_128", **UNIT) for name in ("inswapper_128", "inswapper_128_fp16")),
    *(_swapper(f"hyperswap_1{kind}_256", 256, "normalised", **_HYPERSWAP) for kind in "abc"),
    *(_swapper(f"ghost_{number}_256", 256, "converted", ("crossface_ghost",), **_GHOST) for number in (1, 2, 3)),
    _swapper(
        *("hififace_unofficial_256", 256, "converted-normalised", ("crossface_hififace",)),
        template="mtcnn_512",
        denormalise=True,
        **SIGNED,
    ),
    _swapper("simswap_256", 256, "converted-normalised", ("crossface_simswap",), template="arcface_112_v1", **IMAGENET),
    _swapper("simswap_unofficial_512", 512, "converted-normalised", ("crossface_simswap",), template="arcface_112_v1", **UNIT),
    _from_picture("blendswap_256", (112, "arcface_112_v2"), **UNIT),
    _from_picture("uniface_256", (256, "ffhq_512"), denormalise=True, **SIGNED),
    Contract(
        *("dfm", "swapper"),
        template="dfl_whole_face",
        order="bgr",
        identity="own",
        options={**SWAPPER, "morph": Option(SHARE, 1)},
        **UNIT,
    ),
    *(_enhancer(name, 512) for name in ("gfpgan_1.2", "gfpgan_1.3", "gfpgan_1.4", "codeformer", "restoreformer_plus_plus", "gpen_bfr_512")),
    _enhancer("gpen_bfr_256", 256, "arcface_128"),
    _enhancer("gpen_bfr_1024", 1024),
    _enhancer("gpen_bfr_2048", 2048),
    *(Contract(f"xseg_{number}", "occlusion", size=256, order="bgr", **UNIT) for number in (1, 2, 3)),
    *(Contract(f"bisenet_resnet_{layers}", "parser", size=512, **IMAGENET) for layers in (18, 34)),
]

CONTRACTS: Dict[str, Contract] = {contract.name: contract for contract in _ALL}
CONTRACTS["det_10g"] = CONTRACTS["retinaface_10g"]
CONTRACTS["det_500m"] = CONTRACTS["scrfd_2.5g"]

# Contracts of the manifest that this sidecar does not run, by their stage.
OTHERS: Dict[str, str] = {
    **dict.fromkeys(("wav2lip_96", "wav2lip_gan_96", "edtalk_256"), "lips"),
    "live_portrait_feature_extractor": "portrait-features",
    "live_portrait_motion_extractor": "portrait-motion",
    "live_portrait_generator": "portrait-generator",
    "live_portrait_stitcher": "portrait-stitcher",
    "live_portrait_eye_retargeter": "portrait-eyes",
    "live_portrait_lip_retargeter": "portrait-lips",
    **dict.fromkeys(("rvc_v1", "rvc_v2"), "voice"),
    "contentvec_256": "voice-content-256",
    "contentvec_768": "voice-content-768",
    **dict.fromkeys(("rmvpe", "fcpe"), "voice-pitch"),
    **dict.fromkeys(("piper", "kokoro"), "speech"),
}


def tensors_of(contract: Contract, size: int) -> Tuple[List[Tensor], List[Tensor]]:
    """Returns the inputs and outputs of a model. `size` is the side of its picture."""
    picture = [BATCH, 3, size, size]
    vector = [BATCH, EMBEDDING]
    free = Tensor("input", picture)
    if contract.stage == "detector":
        return [free], _detected(contract.name, size)
    if contract.stage == "landmarks":
        return [free], [Tensor("points", [BATCH, 68, 3]), Tensor("heatmaps", [BATCH, 68, 64, 64])]
    if contract.stage == "recogniser":
        return [free], [Tensor("embedding", vector)]
    if contract.stage == "converter":
        return [Tensor("input", vector)], [Tensor("output", vector)]
    if contract.stage == "enhancer":
        return [free, Tensor("weight", [1], False, True, otherwise=[[]])], [Tensor("output", picture)]
    if contract.stage == "occlusion":
        return [Tensor("input", [BATCH, size, size, 3])], [Tensor("output", [BATCH, size, size, 1])]
    if contract.stage == "parser":
        return [free], [Tensor("output", [BATCH, PARSER_CLASSES, size, size])]
    if contract.identity == "own":
        plane = lambda name, channels: Tensor(name, [BATCH, size, size, channels])  # noqa: E731
        inputs = [plane("face", 3), Tensor("morph", [1], optional=True, otherwise=[[]])]
        return inputs, [plane("target_mask", 1), plane("face", 3), plane("face_mask", 1)]
    side = contract.source[0] if contract.source else 0
    source = Tensor("source", [BATCH, 3, side, side] if contract.source else vector, False)
    return [Tensor("target", picture, False), source], [Tensor("output", picture)]


def _detected(name: str, size: int) -> List[Tensor]:
    if name == "yoloface_8n":
        count = sum((size // stride) ** 2 for stride in STRIDES)
        return [Tensor("faces", [BATCH, 20, count], partly=True)]
    if name == "yunet_2023_mar":
        widths = {"cls": 1, "obj": 1, "bbox": 4, "kps": 10}
        return [
            Tensor(f"{kind}_{stride}", [BATCH, (size // stride) ** 2, width], partly=True)
            for kind, width in widths.items()
            for stride in STRIDES
        ]
    found = []
    for kind, width in {"score": 1, "box": 4, "points": 10}.items():
        for stride in STRIDES:
            count = 2 * (size // stride) ** 2
            found.append(Tensor(f"{kind}_{stride}", [count, width], otherwise=[[BATCH, count, width]], partly=True))
    return found
