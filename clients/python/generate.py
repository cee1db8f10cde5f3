"""Generates the package's types, its calls and its half without asyncio: generate.py OPENAPI.json PACKAGE."""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
from typing import Any, NamedTuple

HEAD = "# Generated from the OpenAPI document by generate.py.\n"
SUBMITS = {"submitIdentitySwap", "submitVideoSwap", "submitPhotoSwap"} | {
    "submitMotionTransfer",
    "submitAvatar",
    "submitLipSync",
}
# Written by hand, or of no use to a program.
LEFT_OUT = {"upload", "beginResumableUpload", "readResumableUpload", "continueResumableUpload", "followJob"} | {
    "connectStream",
    "readFile",
    "getOpenapi",
    "readDocs",
    "readDocsAsset",
}
# Query parameters that continue a list, and the field of a page that has their next value.
NEXT_FIELDS = {"cursor": "next_cursor", "from_index": "next_index"}
# Lists without pages: the field of the last entry that is the next value of the parameter.
NEXT_ENTRIES = {"listUsage": ("to", "created_at"), "listSessions": ("before", "session_id")}


def generate(document: pathlib.Path, package: pathlib.Path) -> None:
    spec = json.loads(document.read_text(encoding="utf-8"))
    describe_submissions(spec)
    write_types(spec, package / "types.py")
    (package / "_async" / "calls.py").write_text(calls_of(spec), encoding="utf-8")
    (package / "_sync").mkdir(exist_ok=True)
    for source in (package / "_async").glob("*.py"):
        (package / "_sync" / source.name).write_text(without_asyncio(source.read_text(encoding="utf-8")), "utf-8")


def describe_submissions(spec: dict[str, Any]) -> None:
    """Describes the items of batches, which the document leaves open, as submits with their capability."""
    schemas = spec["components"]["schemas"]
    refs = []
    for path, submit in submits_of(spec):
        schema = schemas[submit]
        capability = {"type": "string", "const": path[1:], "description": "The capability."}
        name = submit.removesuffix("Submit") + "Submission"
        schemas[name] = {
            **schema,
            "properties": {"capability": capability, **schema["properties"]},
            "required": ["capability", *schema.get("required", [])],
        }
        refs.append({"$ref": f"#/components/schemas/{name}"})
    schemas["BatchItem"] = {"oneOf": refs, "description": schemas["BatchItem"]["description"]}


def submits_of(spec: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns path and schema of each submit."""
    found = [
        (path, body_of(item["post"]) or "")
        for path, item in spec["paths"].items()
        if item.get("post", {}).get("operationId") in SUBMITS
    ]
    if len(found) != len(SUBMITS):
        raise SystemExit(f"the document has {len(found)} of {len(SUBMITS)} submits")
    return found


def write_types(spec: dict[str, Any], target: pathlib.Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "openapi.json"
        source.write_text(json.dumps(spec), encoding="utf-8")
        options = "--input-file-type openapi --output-model-type typing.TypedDict --target-python-version 3.10 "
        options += "--enum-field-as-literal all --formatters builtin --use-schema-description "
        options += "--use-field-description --use-union-operator --disable-timestamp"
        command = [sys.executable, "-m", "datamodel_code_generator", "--input", str(source), "--output", str(target)]
        subprocess.check_call([*command, *options.split()])


class Parameter(NamedTuple):
    name: str
    python: str
    type: str


def calls_of(spec: dict[str, Any]) -> str:
    operations = [
        (method, path, operation)
        for path, item in spec["paths"].items()
        for method, operation in item.items()
        if method != "servers" and operation["operationId"] not in LEFT_OUT | SUBMITS
    ]
    methods = [overloads_of(spec)]
    for method, path, operation in operations:
        methods.append(method_of(spec, method.upper(), path, operation))
        methods.extend(iterator_of(spec, operation))
    body = textwrap.indent("\n".join(methods), "    ")
    return f"""{HEAD}from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Literal, cast, overload

from typing_extensions import Unpack

from .. import types as t
from .jobs import Jobs, OnEvent
from .transport import segment


class Calls(Jobs):
    \"\"\"Every call of the API that is JSON.\"\"\"

{body}"""


def overloads_of(spec: dict[str, Any]) -> str:
    once = "idempotency_key: str | None = None"
    waits = f"{once}, timeout: float | None = None, on_event: OnEvent | None = None"
    text = ""
    for name, answer, more in (("submit", "t.Submitted", once), ("submit_and_wait", "t.Job", waits)):
        for path, schema in submits_of(spec):
            fields = f"**fields: Unpack[t.{schema}]"
            text += f"@overload\nasync def {name}(self, capability: Literal[{path[1:]!r}], *, {more}, {fields}) -> {answer}: ...\n"
        text += f"async def {name}(self, capability: str, *, {more}, **fields: Any) -> {answer}:\n"
        if name == "submit":
            doc = "Submits a job. Repeats with the same key make one job and one charge."
            call = "return cast(t.Submitted, await self._call('POST', f'/{segment(capability)}', body=fields, "
            call += "idempotency_key=idempotency_key, once=True))"
        else:
            doc = "Submits a job and waits until it has succeeded. Raises JobFailed and WaitTimeout."
            call = "answer = await self._call('POST', f'/{segment(capability)}', body=fields, "
            call += "idempotency_key=idempotency_key, once=True)\n    "
            call += "return await self.wait(answer['id'], timeout=timeout, on_event=on_event)"
        text += f'    """{doc}"""\n    {call}\n\n'
    return text


def parameters_of(operation: dict[str, Any], place: str) -> list[Parameter]:
    return [
        Parameter(
            each["name"], each["name"] + ("_" if each["name"] in ("from", "for") else ""), type_of(each["schema"])
        )
        for each in operation.get("parameters", [])
        if each["in"] == place
    ]


def type_of(schema: dict[str, Any]) -> str:
    listed = schema.get("enum")
    if listed == ["true", "false"]:
        return "bool"
    if listed:
        return f"Literal[{', '.join(map(repr, listed))}]"
    return {"integer": "int", "string": "str"}[schema["type"]]


def name_of(schema: dict[str, Any]) -> str:
    return str(schema["$ref"]).split("/")[-1]


def body_of(operation: dict[str, Any]) -> str | None:
    content = operation.get("requestBody", {}).get("content", {})
    return name_of(content["application/json"]["schema"]) if content else None


def answer_of(operation: dict[str, Any]) -> str:
    good = [answer for status, answer in operation["responses"].items() if status.startswith("2")]
    content = [media for answer in good for media in answer.get("content", {}).values()]
    if not content:
        return "None"
    schema = content[0]["schema"]
    if schema.get("format") == "binary":
        return "bytes"
    return f"list[t.{name_of(schema['items'])}]" if schema.get("type") == "array" else f"t.{name_of(schema)}"


def signature(spec: dict[str, Any], operation: dict[str, Any], leave: str = "") -> tuple[str, dict[str, str]]:
    """Returns the parameters of a method, and how they are handed on."""
    paths = parameters_of(operation, "path")
    queries = [each for each in parameters_of(operation, "query") if each.name != leave]
    headers = [each.name for each in parameters_of(operation, "header")]
    parts = ["self", *(f"{each.python}: {each.type}" for each in paths)]
    given: dict[str, str] = {}
    body = body_of(operation)
    schema = spec["components"]["schemas"].get(body, {})
    if "oneOf" in schema:
        parts.append(f"body: t.{body}")
        given["body"] = "body"
    parts.append("/") if paths or given else None
    named = [f"{each.python}: {each.type} | None = None" for each in queries]
    if headers == ["Idempotency-Key"]:
        named.append("idempotency_key: str | None = None")
        given |= {"idempotency_key": "idempotency_key", "once": "True"}
    elif headers:
        raise SystemExit(f"{operation['operationId']} has headers that no call sends: {headers}")
    if named:
        parts += ["*", *named]
    if schema.get("properties"):
        parts.append(f"**body: Unpack[t.{body}]")
        given["body"] = "body"
    if queries:
        given["query"] = "{" + ", ".join(f"{each.name!r}: {each.python}" for each in queries) + "}"
    return ", ".join(parts), given


def method_of(spec: dict[str, Any], method: str, path: str, operation: dict[str, Any]) -> str:
    parameters, given = signature(spec, operation)
    answer = answer_of(operation)
    target = re.sub(r"\{(\w+)\}", r"{segment(\1)}", path)
    handed = "".join(f", {name}={value}" for name, value in given.items())
    call = f"await self._call({method!r}, f{target!r}{handed})"
    returned = {"None": call, "bytes": f"return cast(bytes, {call})"}.get(answer, f"return cast({answer!r}, {call})")
    return (
        f"async def {snake(operation['operationId'])}({parameters}) -> {answer}:\n"
        f"{docstring(operation)}    {returned}\n"
    )


def iterator_of(spec: dict[str, Any], operation: dict[str, Any]) -> list[str]:
    """Returns a method that goes through all pages of a list, where there are pages."""
    name = operation["operationId"]
    answer = answer_of(operation)
    queries = [each.name for each in parameters_of(operation, "query")]
    parameter = next((each for each in queries if each in NEXT_FIELDS), NEXT_ENTRIES.get(name, ("",))[0])
    if not parameter:
        return []
    parameters, _ = signature(spec, operation, leave=parameter)
    paths = [each.python for each in parameters_of(operation, "path")]
    others = [each for each in parameters_of(operation, "query") if each.name != parameter]
    given = ", ".join([*paths, *(f"{each.python}={each.python}" for each in others), f"{parameter}=after"])
    if name in NEXT_ENTRIES:
        entry, entries = answer.removeprefix("list[").removesuffix("]"), "page"
        after = f"page[-1]['{NEXT_ENTRIES[name][1]}'] if page else None"
    else:
        properties = spec["components"]["schemas"][answer.removeprefix("t.")]["properties"]
        field = next(key for key, value in properties.items() if value.get("type") == "array")
        entry, entries = f"t.{name_of(properties[field]['items'])}", f"page['{field}']"
        after = f"page['{NEXT_FIELDS[parameter]}']"
    iterator = snake(name).replace("list_", "iterate_", 1)
    kind = next(each.type for each in parameters_of(operation, "query") if each.name == parameter)
    return [
        f"async def {iterator}({parameters}) -> AsyncIterator[{entry}]:\n"
        f'    """Goes through all pages of {snake(name)}; `limit` is the size of a page."""\n'
        f"    after: {kind} | None = None\n"
        f"    while True:\n"
        f"        page = await self.{snake(name)}({given})\n"
        f"        for entry in {entries}:\n"
        f"            yield entry\n"
        f"        after = {after}\n"
        f"        if after is None:\n"
        f"            return\n"
    ]


def docstring(operation: dict[str, Any]) -> str:
    text = f"{operation['summary']}.\n\n{operation['description']}".replace("\\", "\\\\").replace('"""', "'''")
    return textwrap.indent(f'"""{text}\n"""\n', "    ")


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


def without_asyncio(text: str) -> str:
    """Returns the module without asyncio: the same statements, that block."""
    for pattern, replacement in (
        (r"\basync (def|with|for)\b", r"\1"),
        (r"\bawait ", ""),
        (r"\b_io import asynchronous\b", "_io import synchronous"),
        (r"\bAsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
        (r"\bAsync(Generator|Client|Iterator|Iterable|Semblance)\b", r"\1"),
        (r"\basynccontextmanager\b", "contextmanager"),
        (r"\baclosing\b", "closing"),
        (r"\b__a(enter|exit)__", r"__\1__"),
        (r"\ba(close|read|iter_raw)\(", r"\1("),
    ):
        text = re.sub(pattern, replacement, text)
    return text


if __name__ == "__main__":
    generate(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
