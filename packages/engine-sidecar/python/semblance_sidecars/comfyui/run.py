"""One render of a workflow: uploads, the prompt, its progress, its outcome and its output."""

import asyncio
import os
import time
import uuid
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional, Set, Tuple

import aiohttp
from semblance_sidecar import RenderInterrupted
from semblance_sidecar.contract import Value

from ..media import check_input
from . import faults, workflow
from .faults import WorkflowFault
from .server import AWAY, ComfyServer
from .settings import Recipe

# Pause between two questions for the outcome when the socket says nothing of it, in seconds.
POLL_S = 2
# The same after the socket has said that the prompt ended, which is a moment before it is in the history.
SOON_S = 0.05
# Share of the progress when the inputs are there, and when the workflow has ended.
BEGUN, RUN = 0.05, 0.93
ENDS = ("execution_success", "execution_error", "execution_interrupted")


class Run:
    """One render. `fraction` and `stage` are its progress; `clean` may be called at any time."""

    def __init__(self, server: ComfyServer, recipe: Recipe, nodes: workflow.Nodes, patience_s: float):
        self.server = server
        self.fraction = 0.0
        self.stage = "upload"
        self.prompt_id: Optional[str] = None
        self.uploads: List[str] = []
        self._recipe = recipe
        self._nodes = nodes
        self._patience_s = patience_s
        self._ended = asyncio.Event()
        self._done: Set[str] = set()
        self._node: Optional[str] = None

    async def render(
        self,
        inputs: Mapping[str, str],
        parameters: Mapping[str, str],
        options: Mapping[str, Value],
        path: str,
        most: int,
    ) -> None:
        """Renders, and writes the output of at most `most` bytes to a path.

        Raises RenderError, RenderInterrupted, WorkflowFault, BadAnswer, or what aiohttp raises of a lost server.
        """
        recipe = self._recipe
        names: Dict[str, str] = {}
        for role, kind in recipe.shape.roles.items():
            found = await check_input(inputs[role], role, kind, recipe.offer.limits)
            name = f"{self.server.client_id}-{uuid.uuid4().hex}-{role}{found.suffix}"
            self.uploads.append(name)
            names[role] = await self.server.upload(inputs[role], name, role.replace("_", " "))
        prompt = workflow.fill(recipe, self._nodes, names, parameters, options)
        connected = asyncio.Event()
        listening = asyncio.ensure_future(self.server.listen(self._hear, connected))
        try:
            # The first messages come as soon as the prompt is queued. Without a socket it goes on all the same.
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(connected.wait(), POLL_S)
            self.stage, self.fraction = "queue", BEGUN
            outputs = await self._follow(prompt)
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        self.stage, self.fraction = "fetch", max(self.fraction, RUN)
        await self.server.fetch(self._output(outputs), path, most)

    async def abandon(self) -> None:
        """Stops the prompt of a cancelled render, and empties its inputs."""
        if self.prompt_id is not None:
            await self.server.stop(self.prompt_id)
        await asyncio.gather(*(self.server.empty(name, "", "input") for name in self.uploads))

    async def clean(self) -> bool:
        """Removes what ComfyUI keeps of this render. Returns whether nothing is left to remove.

        A prompt that still runs is left alone: it may write more.
        """
        if self.prompt_id is not None:
            entry, waits = await self._entry()
            if waits:
                return False
            outputs = entry.get("outputs") if entry else None
            for file in _files(outputs):
                await self.server.empty(file["filename"], file["subfolder"], file["type"])
            if entry:
                await self.server.post("/history", {"delete": [self.prompt_id]})
        for name in self.uploads:
            await self.server.empty(name, "", "input")
        return True

    async def _follow(self, prompt: Mapping[str, Any]) -> Mapping[str, Any]:
        """Queues the prompt and returns the outputs of its nodes when it has ended."""
        recipe = self._recipe
        # It is known before the answer, because a cancel may come in between.
        self.prompt_id = str(uuid.uuid4())
        status, said = await self.server.queue(prompt, self.prompt_id)
        if status != 200 or not isinstance(said, dict):
            self.prompt_id = None
            raise faults.of_prompt(status, said, recipe)
        # ComfyUI before 0.3.45 gives the prompt another name.
        self.prompt_id = str(said.get("prompt_id", self.prompt_id))
        wrong = {n: e for n, e in (said.get("node_errors") or {}).items() if recipe.output_node in e.get("dependent_outputs", [])}
        if wrong:
            await self.server.stop(self.prompt_id)
            raise faults.of_node_errors(wrong, recipe)
        entry = await self._outcome()
        messages = (entry.get("status") or {}).get("messages") or []
        for event, data in messages:
            if event == "execution_error":
                raise faults.of_execution(data, recipe)
            if event == "execution_interrupted":
                raise RenderInterrupted(f"somebody interrupted the prompt in {self.server.url}")
        return entry.get("outputs") or {}

    async def _outcome(self) -> Mapping[str, Any]:
        """Waits until the prompt is in the history. A server that is away may come back within its time."""
        answered = time.monotonic()
        while True:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._ended.wait(), POLL_S)
            try:
                entry, waits = await self._entry()
                if entry is not None:
                    return entry
                if not waits:
                    raise RenderInterrupted(f"{self.server.url} knows nothing of the prompt any more")
                answered = time.monotonic()
            except (*AWAY, aiohttp.ClientError) as error:
                if time.monotonic() - answered > self._patience_s:
                    raise RenderInterrupted(f"{self.server.url} went away: {str(error) or type(error).__name__}", reload=True) from None
            if self._ended.is_set():
                await asyncio.sleep(SOON_S)

    async def _entry(self) -> Tuple[Optional[Mapping[str, Any]], bool]:
        """Returns what the history says of the prompt, and whether the prompt still runs or waits to run."""
        entry = await self.server.history(self.prompt_id)
        if entry is not None:
            return entry, False
        if any(self.prompt_id in each for each in await self.server.waiting()):
            return None, True
        # It may have ended between the two questions.
        return await self.server.history(self.prompt_id), False

    def _hear(self, event: str, data: Mapping[str, Any]) -> None:
        """Takes a message of the socket. It only tells progress: the outcome is read from the history."""
        # A socket that is connected again is told the node that runs, without its prompt.
        if self.prompt_id is None or data.get("prompt_id", self.prompt_id) != self.prompt_id:
            return
        if event in ENDS:
            self._ended.set()
        elif event == "execution_start":
            self.stage = "run"
        elif event == "execution_cached":
            self._done.update(str(node) for node in data.get("nodes") or ())
            self._tell(0)
        elif event == "executing":
            node = data.get("node")
            if self._node is not None:
                self._done.add(self._node)
            self._node = None if node is None else str(node)
            if self._node is None:
                self._ended.set()
            self._tell(0)
        elif event == "progress" and data.get("max"):
            with suppress(TypeError, ValueError):
                self._tell(float(data.get("value", 0)) / float(data["max"]))

    def _tell(self, of_node: float) -> None:
        done = len(self._done) + min(1.0, max(0.0, of_node))
        self.fraction = max(self.fraction, min(RUN, BEGUN + (RUN - BEGUN) * done / len(self._recipe.workflow)))
        self.stage = self._recipe.stages.get(self._node or "", "run" if self.stage == "queue" else self.stage)

    def _output(self, outputs: Mapping[str, Any]) -> Mapping[str, str]:
        """Returns the one file that the output node saved. Raises WorkflowFault."""
        recipe = self._recipe
        said = outputs.get(recipe.output_node)
        if recipe.output_key is not None and isinstance(said, dict):
            said = {recipe.output_key: said.get(recipe.output_key)}
        files = _files({"": said})
        if len(files) != 1:
            raise WorkflowFault(f"workflow {recipe.name}: {recipe.label(recipe.output_node)} saved {len(files)} files, not one")
        return files[0]


def _files(outputs: Any) -> List[Dict[str, str]]:
    """Returns the files in the outputs of nodes: each node maps kinds, such as `images` or `gifs`, to lists."""
    found = []
    for said in outputs.values() if isinstance(outputs, dict) else ():
        for each in said.values() if isinstance(said, dict) else ():
            for file in each if isinstance(each, list) else ():
                if isinstance(file, dict) and file.get("filename"):
                    kind = file.get("type") or "output"
                    name, folder = os.path.basename(str(file["filename"])), str(file.get("subfolder") or "")
                    found.append({"filename": name, "subfolder": folder, "type": str(kind)})
    return found
