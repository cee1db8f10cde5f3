"""Turns what a worker process answers into messages and ends of calls."""

from typing import Optional

import grpc
from semblance.engine.v1 import engine_pb2 as pb
from semblance.engine.v1 import findings_pb2

from .contract import Option, Speech, text_of_value


def text_of(error: object) -> str:
    """Returns the text of a call's end: HTTP/2 drops one that begins or ends with a space."""
    return str(error)[:500].strip()


def abort(answer, context) -> None:
    """Ends the call of an engine that has neither a result nor a refusal."""
    if answer[0] == "interrupted":
        context.abort(grpc.StatusCode.ABORTED, text_of(answer[1]))
    context.abort(grpc.StatusCode.INTERNAL, text_of(answer[-1]))


def failure(answer) -> pb.RenderFailure:
    _, code, message, findings = answer
    return pb.RenderFailure(code=code, message=message, findings=findings_of(findings))


def option_of(said: Option) -> pb.EngineOption:
    default = None if said.default is None else text_of_value(said.default)
    return pb.EngineOption(
        name=said.name,
        type=said.type,
        minimum=said.minimum,
        maximum=said.maximum,
        choices=said.choices,
        max_length=said.max_length if said.type == "text" else 0,
        default=default,
        description=said.description,
    )


def speech_of(said: Optional[Speech]) -> Optional[pb.EngineSpeech]:
    if said is None:
        return None
    return pb.EngineSpeech(
        voices=[
            pb.EngineVoice(
                id=voice.id,
                language=voice.language,
                gender=voice.gender,
                variants=voice.id if voice.variants else "",
            )
            for voice in said.voices
        ],
        variants=[
            pb.EngineVariants(name=voice.id, endings=voice.variants) for voice in said.voices if voice.variants
        ],
        languages=said.languages,
    )


def findings_of(said) -> Optional[findings_pb2.Findings]:
    if said is None:
        return None
    faces, hints, models = said
    counts = None
    if faces is not None:
        found, changed, left = faces
        reasons = [findings_pb2.LeftFaces(reason=reason, count=count) for reason, count in left]
        counts = findings_pb2.FaceCounts(found=found, changed=changed, left=reasons)
    told = [findings_pb2.Hint(code=code, message=message, input=of) for code, message, of in hints]
    used = [findings_pb2.UsedModel(name=name, sha256=sha256, licence=licence) for name, sha256, licence in models]
    return findings_pb2.Findings(faces=counts, hints=told, models=used)
