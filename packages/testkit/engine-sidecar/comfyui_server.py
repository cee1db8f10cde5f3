"""A server that answers as ComfyUI 0.3.64 does where the sidecar asks it: routes and messages as its server.py, execution.py and main.py have them.

Its nodes copy files. The node `Trial` does what its input `mode` says. `python comfyui_server.py PORT FOLDER`; POST
/trial/lose closes every socket. FOLDER/requests has a line for each request.
"""

import asyncio
import json
import os
import sys
import uuid
from contextlib import suppress

from aiohttp import web

PICTURE = {"image": [["example.png"], {"image_upload": True}]}
MODES = ["ok", "slow", "lingers", "memory", "fail", "no-face", "lost", "forget", "interrupted", "two", "exit"]
CLASSES = {
    "LoadImage": {"required": PICTURE},
    "LoadVideo": {"required": {"file": ["COMBO", {"options": [], "video_upload": True}]}},
    "LoadAudio": {"required": {"audio": ["COMBO", {"options": [], "audio_upload": True}]}},
    "Trial": {
        "required": {"images": ["IMAGE"], "mode": [MODES]},
        "optional": {"steps": ["INT", {"min": 1, "max": 100}], "model": [["a.safetensors", "b.safetensors"]]},
    },
    "SaveImage": {"required": {"images": ["IMAGE"], "filename_prefix": ["STRING", {}]}},
    "SaveVideo": {"required": {"video": ["VIDEO"]}},
}
SAVES = ("SaveImage", "SaveVideo")


class Fault(Exception):
    """A node fails with an exception of this type."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Interrupted(Exception):
    pass


class Comfy:
    def __init__(self, folder):
        self.folder = folder
        self.pending, self.running, self.history, self.sockets = [], [], {}, {}
        self.leave = None
        self.news = asyncio.Event()
        self.interrupt = False
        for kind in ("input", "output"):
            os.makedirs(os.path.join(folder, kind), exist_ok=True)

    def path(self, kind, *names):
        return os.path.join(self.folder, kind, *names)

    async def send(self, event, data, client):
        socket = self.sockets.get(client)
        if socket is not None and not socket.closed:
            with suppress(ConnectionError):
                await socket.send_json({"type": event, "data": data})

    async def lose(self):
        for socket in [*self.sockets.values()]:
            await socket.close()

    async def work(self):
        while True:
            while not self.pending:
                self.news.clear()
                await self.news.wait()
            item = self.pending.pop(0)
            self.running = [item]
            self.interrupt = False
            await self.execute(item)

    async def execute(self, item):
        _, prompt_id, prompt, extra, _ = item
        client = extra.get("client_id")
        messages, ui, forgotten = [], {}, False

        async def tell(event, data):
            messages.append([event, {**data, "prompt_id": prompt_id, "timestamp": 0}])
            await self.send(*messages[-1], client)

        await tell("execution_start", {})
        await tell("execution_cached", {"nodes": []})
        values = {}
        try:
            for node in ordered(prompt):
                if self.interrupt:
                    raise Interrupted()
                await self.send("executing", {"node": node, "display_node": node, "prompt_id": prompt_id}, client)
                values[node] = await self.run(node, prompt[node], values, client, prompt_id)
                if prompt[node]["class_type"] in SAVES:
                    ui[node] = self.save(prompt[node], values[node])
                    await self.send("executed", {"node": node, "output": ui[node], "prompt_id": prompt_id}, client)
            await tell("execution_success", {})
        except Interrupted:
            await tell("execution_interrupted", {"node_id": node, "node_type": prompt[node]["class_type"], "executed": []})
        except LookupError:
            forgotten = True
        except Fault as fault:
            said = {"exception_message": f"{fault}\n", "exception_type": fault.kind, "traceback": [], "current_inputs": {}}
            await tell("execution_error", {"node_id": node, "node_type": prompt[node]["class_type"], "executed": [], **said})
        self.running = []
        if not forgotten:
            good = messages[-1][0] == "execution_success"
            status = {"status_str": "success" if good else "error", "completed": good, "messages": messages}
            self.history[prompt_id] = {"prompt": item, "outputs": ui, "status": status, "meta": {}}
        await self.send("executing", {"node": None, "prompt_id": prompt_id}, client)

    async def run(self, node, said, values, client, prompt_id):
        inputs = {name: values[it[0]] if isinstance(it, list) else it for name, it in said["inputs"].items()}
        if said["class_type"].startswith("Load"):
            with open(self.path("input", *inputs.values()), "rb") as file:
                return file.read()
        if said["class_type"] != "Trial":
            return next(iter(inputs.values()))
        mode = inputs["mode"]
        steps = int(inputs.get("steps", 4))
        for step in range(1200 if mode in ("slow", "lingers") else steps):
            if self.interrupt and mode == "lingers":
                self.leave = asyncio.Event()
                await self.leave.wait()
            if self.interrupt:
                raise Interrupted()
            await self.send("progress", {"value": step + 1, "max": steps, "prompt_id": prompt_id, "node": node}, client)
            if step == 1 and mode == "lost":
                await self.lose()
            await asyncio.sleep(0.05)
        if mode == "memory":
            raise Fault("torch.OutOfMemoryError", "Allocation on device 0 would exceed allowed memory. (out of memory)")
        if mode == "fail":
            raise Fault("RuntimeError", "mat1 and mat2 shapes cannot be multiplied")
        if mode == "no-face":
            raise Fault("ValueError", "No face detected in the source image")
        if mode == "interrupted":
            raise Interrupted()
        if mode == "forget":
            raise LookupError()
        if mode == "exit":
            os._exit(0)
        return (inputs["images"], inputs["images"]) if mode == "two" else inputs["images"]

    def save(self, said, value):
        files = []
        for content in value if isinstance(value, tuple) else (value,):
            name = f"{uuid.uuid4().hex}_{'.mp4' if said['class_type'] == 'SaveVideo' else '.png'}"
            with open(self.path("output", name), "wb") as file:
                file.write(content)
            files.append({"filename": name, "subfolder": "", "type": "output"})
        return {"images": files, **({"animated": [True]} if said["class_type"] == "SaveVideo" else {})}

    def errors(self, prompt):
        """What validate_prompt() says: an error and node_errors; None for a prompt that may run."""
        wrong = {}
        for node, said in prompt.items():
            if said["class_type"] not in CLASSES:
                text = f"Cannot execute because node {said['class_type']} does not exist."
                return {"type": "invalid_prompt", "message": text, "details": f"Node ID '#{node}'", "extra_info": {}}, {}
            info = CLASSES[said["class_type"]]
            faults = []
            for name, spec in {**info["required"], **info.get("optional", {})}.items():
                value, more = said["inputs"].get(name), spec[1] if len(spec) > 1 else {}
                extra = {"input_name": name}
                if value is None and name in info["required"]:
                    faults.append({"type": "required_input_missing", "message": "Required input is missing", "details": name, "extra_info": extra})
                elif any(each.endswith("_upload") for each in more) and not os.path.exists(self.path("input", value)):
                    text = f"{name} - Invalid file: {value}"
                    faults.append({"type": "custom_validation_failed", "message": "Custom validation failed for node", "details": text, "extra_info": extra})
                elif isinstance(spec[0], list) and not more and value is not None and value not in spec[0]:
                    text = f"{name}: '{value}' not in {spec[0]}"
                    faults.append({"type": "value_not_in_list", "message": "Value not in list", "details": text, "extra_info": extra})
                elif "max" in more and value is not None and value > more["max"]:
                    text = f"Value {value} bigger than max of {more['max']}"
                    faults.append({"type": "value_bigger_than_max", "message": text, "details": name, "extra_info": extra})
            if faults:
                wrong[node] = {"errors": faults, "dependent_outputs": [n for n in prompt if prompt[n]["class_type"] in SAVES], "class_type": said["class_type"]}
        if wrong:
            return {"type": "prompt_outputs_failed_validation", "message": "Prompt outputs failed validation", "details": "", "extra_info": {}}, wrong
        return None


def ordered(prompt):
    """The nodes so that each comes after those that feed it."""
    done = []
    while len(done) < len(prompt):
        for node, said in prompt.items():
            feeds = [it[0] for it in said["inputs"].values() if isinstance(it, list)]
            if node not in done and all(feed in done for feed in feeds):
                done.append(node)
    return done


def routes_of(comfy, argv):
    routes = web.RouteTableDef()

    @routes.get("/ws")
    async def ws(request):
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        client = request.query.get("clientId") or uuid.uuid4().hex
        comfy.sockets[client] = socket
        await comfy.send("status", {"status": {"exec_info": {"queue_remaining": len(comfy.pending)}}, "sid": client}, client)
        await socket.send_bytes(b"\0\0\0\1\0\0\0\1preview")
        async for _ in socket:
            pass
        return socket

    @routes.get("/system_stats")
    async def stats(_):
        system = {"comfyui_version": "0.3.64", "argv": argv}
        return web.json_response({"system": system, "devices": [{"name": "cpu", "type": "cpu"}]})

    @routes.get("/object_info/{name}")
    async def info(request):
        name = request.match_info["name"]
        said = {"input": CLASSES.get(name), "output_node": name in SAVES}
        return web.json_response({name: said} if name in CLASSES else {})

    @routes.post("/upload/image")
    async def upload(request):
        post = await request.post()
        name, kind = post["image"].filename, post.get("type", "input")
        path = comfy.path(kind, post.get("subfolder", ""), name)
        if os.path.exists(path) and post.get("overwrite") not in ("true", "1"):
            name = f"{name} (1)"
        with open(path, "wb") as file:
            file.write(post["image"].file.read())
        return web.json_response({"name": name, "subfolder": "", "type": kind})

    @routes.get("/view")
    async def view(request):
        path = comfy.path(request.query.get("type", "output"), request.query.get("subfolder", ""), request.query["filename"])
        return web.FileResponse(path) if os.path.isfile(path) else web.Response(status=404)

    @routes.post("/prompt")
    async def prompt(request):
        said = await request.json()
        errors = comfy.errors(said["prompt"])
        if errors:
            return web.json_response({"error": errors[0], "node_errors": errors[1]}, status=400)
        comfy.pending.append([0, said["prompt_id"], said["prompt"], {"client_id": said["client_id"]}, []])
        comfy.news.set()
        return web.json_response({"prompt_id": said["prompt_id"], "number": 0, "node_errors": {}})

    @routes.get("/history")
    async def histories(_):
        return web.json_response(comfy.history)

    @routes.get("/history/{id}")
    async def history(request):
        found = request.match_info["id"]
        return web.json_response({found: comfy.history[found]} if found in comfy.history else {})

    @routes.post("/history")
    async def forget(request):
        for each in (await request.json()).get("delete", []):
            comfy.history.pop(each, None)
        return web.Response()

    @routes.get("/queue")
    async def queue(_):
        # An interrupted prompt of the mode `lingers` ends just before somebody is told the queue.
        if comfy.leave:
            comfy.leave.set()
            while comfy.running:
                await asyncio.sleep(0.01)
            comfy.leave = None
        return web.json_response({"queue_running": comfy.running, "queue_pending": comfy.pending})

    @routes.post("/queue")
    async def unqueue(request):
        gone = (await request.json()).get("delete", [])
        comfy.pending = [item for item in comfy.pending if item[1] not in gone]
        return web.Response()

    @routes.post("/interrupt")
    async def interrupt(request):
        said = await request.json()
        comfy.interrupt = any(item[1] == said["prompt_id"] for item in comfy.running)
        return web.Response()

    @routes.post("/free")
    async def free(_):
        return web.Response()

    return routes


async def main(port, folder, argv):
    comfy = Comfy(folder)

    @web.middleware
    async def note(request, handler):
        with open(os.path.join(folder, "requests"), "a") as file:
            body = await request.text() if request.content_type == "application/json" and request.can_read_body else ""
            file.write(json.dumps([f"{request.method} {request.path}", json.loads(body) if body else None]) + "\n")
        return await handler(request)

    app = web.Application(middlewares=[note], client_max_size=1 << 20)
    app.add_routes(routes_of(comfy, argv))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print("listening", flush=True)
    await comfy.work()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
