"""The engine: it queues a workflow for each render in the ComfyUI of its worker, and follows it to the end."""

import asyncio
import hashlib
import os
import socket
import sys
from typing import Any, Awaitable, Dict, List, Mapping

import aiohttp
from semblance_sidecar import Engine, Job, RenderInterrupted, Result
from semblance_sidecar.contract import Cancelled

from ..media import check_output
from ..momentary import MOMENTARY
from . import workflow
from .faults import WorkflowFault
from .run import Run
from .server import AWAY, BadAnswer, ComfyServer
from .settings import Recipe, Server, read_settings

# Pause between two reports of the progress, in seconds.
TICK_S = 0.1
# Time for stopping a cancelled prompt, in seconds: half a second after its cancel a worker is killed.
STOP_S = 0.35
# Time for removing what a render left in the server, in seconds.
CLEAN_S = 5
# Time for the first render of the samples, in seconds.
SAMPLE_S = 3000


class ComfyUi(Engine):
    name = "comfyui"
    version = "1"

    def load(self) -> None:
        """Checks the server and all workflows against it, and renders the samples."""
        self.settings = read_settings()
        self.server: Server = self.settings.servers[self.worker]
        self.nodes: Dict[str, Dict[str, Any]] = {}
        # The same in every process of this worker, so that one that follows a killed one finds what that left.
        whose = f"{socket.gethostname()} {os.environ.get('SEMBLANCE_SIDECAR_SOCKET')} {sys.argv} {self.worker}"
        self.client_id = f"semblance-{hashlib.sha256(whose.encode()).hexdigest()[:12]}"
        self.left: List[Run] = []
        asyncio.run(self._reached(self._check()))

    def render(self, job: Job) -> Result:
        return asyncio.run(self._reached(self._render(job)))

    async def _reached(self, work: Awaitable[Any]) -> Any:
        """Awaits work with the server. What only the network or the server's state explains is a fault of the moment."""
        try:
            return await work
        except RenderInterrupted:
            raise
        except AWAY as error:
            raise RenderInterrupted(f"{self.server.url} cannot be reached: {str(error) or type(error).__name__}", reload=True) from None

    def _open(self) -> ComfyServer:
        return ComfyServer(self.server.url, self.client_id, self.settings.folders)

    async def _check(self) -> None:
        async with self._open() as server:
            stats = await server.get("/system_stats")
            system = stats["system"] if isinstance(stats, dict) and isinstance(stats.get("system"), dict) else {}
            devices = [str(each.get("name")) for each in stats.get("devices", [])] if system else []
            print(f"ComfyUI {system.get('comfyui_version')} at {self.server.url}: {', '.join(devices)}", flush=True)
            if not system:
                raise WorkflowFault(f"{self.server.url} is no ComfyUI")
            if self.server.device and not any(self.server.device in each for each in devices):
                raise WorkflowFault(f"{self.server.url} runs on {', '.join(devices)}, not on {self.server.device}")
            if not self.settings.allow_metadata and "--disable-metadata" not in system.get("argv", []):
                raise WorkflowFault(
                    f"{self.server.url} writes the whole workflow into every output: start ComfyUI with --disable-metadata,"
                    " or set allow_metadata: true"
                )
            for recipe in self.settings.recipes.values():
                for said in recipe.workflow.values():
                    of = said["class_type"]
                    if of not in self.nodes:
                        info = await server.get(f"/object_info/{of}")
                        self.nodes[of] = info.get(of, {}) if isinstance(info, dict) else {}
                fault = workflow.fault_of(recipe, self.nodes)
                if fault:
                    raise WorkflowFault(fault)
            await self._sweep(server)
            for name, recipe in self.settings.recipes.items():
                if recipe.sample:
                    await asyncio.wait_for(self._render_sample(server, name, recipe), SAMPLE_S)

    async def _render_sample(self, server: ComfyServer, name: str, recipe: Recipe) -> None:
        files, parameters = recipe.sample
        print(f"rendering the sample of {name}", flush=True)
        run = Run(server, recipe, self.nodes, self.settings.patience_s)
        try:
            await run.render(files, parameters, {}, os.devnull, self.settings.output_bytes)
        finally:
            await run.clean()

    async def _sweep(self, server: ComfyServer) -> None:
        """Stops and cleans what a killed process of this worker left in the server."""
        ours = {}
        for waiting in await server.waiting():
            ours.update(waiting)
        ended = await server.get("/history", max_items="100")
        ours.update({each: entry.get("prompt") for each, entry in ended.items()} if isinstance(ended, dict) else {})
        for prompt_id, item in ours.items():
            if isinstance(item, list) and len(item) > 3 and item[3].get("client_id") == self.client_id:
                run = Run(server, next(iter(self.settings.recipes.values())), self.nodes, 0)
                run.prompt_id, run.uploads = prompt_id, _named(item[2], self.client_id)
                await server.stop(prompt_id)
                self.left.append(run)
        await self._clean(server)

    async def _clean(self, server: ComfyServer) -> None:
        """Cleans up after former renders, as far as they have ended."""
        for run in [*self.left]:
            run.server = server
            if await run.clean():
                self.left.remove(run)

    async def _render(self, job: Job) -> Result:
        recipe = self.settings.recipes[job.capability]
        path = job.output("output")
        async with self._open() as server:
            await self._clean(server)
            run = Run(server, recipe, self.nodes, self.settings.patience_s)
            self.left.append(run)
            work = asyncio.ensure_future(
                run.render(job.inputs, job.parameters, job.options, path, self.settings.output_bytes)
            )
            try:
                while not work.done():
                    job.progress(run.fraction, run.stage)
                    await asyncio.wait({work}, timeout=TICK_S)
                work.result()
            except Cancelled:
                work.cancel()
                # There is no time for more. The next render cleans up.
                await _within(STOP_S, run.abandon())
                raise
            except BaseException as error:
                await _within(CLEAN_S, self._clean(server))
                if isinstance(error, BadAnswer):
                    raise WorkflowFault(f"workflow {recipe.name}: {error}") from None
                if isinstance(error, RenderInterrupted) and MOMENTARY.search(error.message):
                    # Models that stay loaded may be what leaves no memory for the next attempt.
                    await _within(CLEAN_S, server.post("/free", {"unload_models": True, "free_memory": True}))
                raise
            await _within(CLEAN_S, self._clean(server))
            job.progress(0.97, "measure")
            return await self._result(job, recipe, path)

    async def _result(self, job: Job, recipe: Recipe, path: str) -> Result:
        found = await check_output(path, recipe.shape.unit)
        if found is None:
            wanted = "PNG, JPEG or WebP" if recipe.shape.unit == "image" else "MP4 or WebM"
            raise WorkflowFault(f"workflow {recipe.name}: {recipe.label(recipe.output_node)} gave no {wanted}")
        name = f"output{found.suffix}"
        os.rename(path, job.output(name))
        units: Mapping[str, float] = {"images": 1} if recipe.shape.unit == "image" else {"seconds": found.seconds}
        return Result(name, found.content_type, details={"workflow": recipe.name}, **units)


async def _within(seconds: float, work: Awaitable[Any]) -> Any:
    """Awaits work for a time. Returns None where it fails or takes longer: a later render, or start, does it again."""
    try:
        return await asyncio.wait_for(work, seconds)
    except (*AWAY, aiohttp.ClientError, BadAnswer, RenderInterrupted) as error:
        print(f"not cleaned up at once: {error!r}", file=sys.stderr)
        return None


def _named(said: Any, start: str) -> List[str]:
    """Returns all texts in a prompt that begin so: the names of its uploads."""
    if isinstance(said, str):
        return [said] if said.startswith(start) else []
    parts = said.values() if isinstance(said, Mapping) else said if isinstance(said, list) else ()
    return [name for part in parts for name in _named(part, start)]
