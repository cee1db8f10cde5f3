"""What serve() does with its socket, its processes and its words; run by python.test.ts."""

import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from contextlib import redirect_stderr
from unittest import mock

import grpc
import rough_engine
from rough_engine import RoughEngine
from semblance.engine.v1 import engine_pb2 as pb
from semblance.engine.v1 import engine_pb2_grpc
from semblance_sidecar import Capability, Limits, Option, Speech, Voice, serve
from semblance_sidecar.answers import speech_of

LONG_S = 30


def runs(pid):
    """Its parent may not have looked since."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return ") Z " not in stat.read()
    except FileNotFoundError:
        return False


class Served(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "engine.sock")
        os.mkdir(os.path.join(folder.name, "out"))
        with open(os.path.join(folder.name, "image"), "w") as file:
            file.write("an image")

    def start(self, load=""):
        """An engine as a leader of a group of its own, as a terminal has it."""
        engine = subprocess.Popen(
            [sys.executable, rough_engine.__file__, "--socket", self.path],
            env={**os.environ, "ROUGH_LOAD": load},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.addCleanup(engine.communicate)
        self.addCleanup(engine.kill)
        return engine

    def listening(self, load=""):
        engine = self.start(load)
        self.assertIn("listens on", engine.stdout.readline())
        return engine

    def client(self):
        channel = grpc.insecure_channel(f"unix:{self.path}")
        self.addCleanup(channel.close)
        return engine_pb2_grpc.EngineServiceStub(channel)

    def render(self, client, mode):
        request = pb.RenderRequest(
            render_id=mode,
            capability="face-swap-image",
            inputs={"image": "image"},
            parameters={"mode": mode},
            output_dir="out",
        )
        return client.Render(request, timeout=LONG_S)

    def child_of(self, answers):
        """The process id of the program that a render has started."""
        for answer in answers:
            if answer.progress.stage.startswith("child "):
                return int(answer.progress.stage[6:])
        self.fail("no child was told of")

    def end(self, engine, by=signal.SIGTERM):
        """What it printed as an error."""
        engine.send_signal(by)
        _, error = engine.communicate(timeout=LONG_S)
        self.assertEqual(engine.returncode, 0)
        return error

    def until(self, holds):
        end = time.monotonic() + LONG_S
        while not holds():
            self.assertLess(time.monotonic(), end, "not in time")
            time.sleep(0.05)


class Socket(Served):
    def test_is_left_to_who_listens_on_it(self):
        first = self.listening()
        second = self.start()
        _, error = second.communicate(timeout=LONG_S)
        self.assertEqual([second.returncode, error], [1, f"somebody listens on {self.path} already\n"])
        self.assertEqual(self.client().GetInfo(pb.GetInfoRequest(), timeout=LONG_S).name, "rough")
        self.assertEqual(self.end(first), "")
        self.assertEqual(os.listdir(os.path.dirname(self.path)).count("engine.sock"), 0)

    def test_is_taken_from_one_that_was_killed(self):
        first = self.listening()
        first.kill()
        first.wait()
        self.assertTrue(os.path.exists(self.path))
        second = self.listening()
        self.assertEqual(self.client().GetInfo(pb.GetInfoRequest(), timeout=LONG_S).name, "rough")
        self.end(second)

    def test_of_another_is_left_at_the_end(self):
        engine = self.listening()
        os.unlink(self.path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(self.path)
            self.end(engine)
            self.assertEqual(sorted(os.listdir(os.path.dirname(self.path))), ["engine.sock", "image", "out"])

    def test_is_no_file_of_somebody(self):
        with open(self.path, "w") as file:
            file.write("mine")
        engine = self.start()
        _, error = engine.communicate(timeout=LONG_S)
        self.assertEqual([engine.returncode, error], [1, f"{self.path} is there already, and is no socket\n"])
        with open(self.path) as file:
            self.assertEqual(file.read(), "mine")

    def test_needs_a_folder(self):
        self.path = os.path.join(os.path.dirname(self.path), "none", "engine.sock")
        engine = self.start()
        _, error = engine.communicate(timeout=LONG_S)
        folder = os.path.dirname(self.path)
        told = f"there is no folder {folder}: set SEMBLANCE_SIDECAR_SOCKET\n"
        self.assertEqual([engine.returncode, error], [1, told])


class Processes(Served):
    def test_of_a_cancelled_render_end_with_the_programs_it_started(self):
        engine, client = self.listening(), self.client()
        client.WarmUp(pb.WarmUpRequest(), timeout=LONG_S)
        answers = self.render(client, "child")
        child = self.child_of(answers)
        answers.cancel()
        self.until(lambda: not runs(child))
        self.assertEqual(self.end(engine), "ending the process of a cancelled render\n")

    def test_that_die_take_what_they_started_with_them_and_are_told_of(self):
        engine, client = self.listening(), self.client()
        client.WarmUp(pb.WarmUpRequest(), timeout=LONG_S)
        answers = self.render(client, "orphan")
        child = self.child_of(answers)
        with self.assertRaises(grpc.RpcError) as caught:
            list(answers)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.ABORTED)
        self.until(lambda: not runs(child))
        with self.assertRaises(grpc.RpcError):
            list(self.render(client, "die"))
        told = ["exit status 4", "SIGKILL"]
        self.assertEqual(self.end(engine), "".join(f"the process that rendered has died: {how}\n" for how in told))

    def test_end_with_what_they_started_when_the_engine_ends_however_it_does(self):
        for by in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(by=by.name):
                engine, client = self.listening(), self.client()
                client.WarmUp(pb.WarmUpRequest(), timeout=LONG_S)
                child = self.child_of(self.render(client, "child"))
                # As Ctrl-C does.
                os.killpg(engine.pid, by)
                _, error = engine.communicate(timeout=LONG_S)
                self.assertNotIn("Traceback", error)
                self.until(lambda: not runs(child))

    def test_end_quietly_while_the_model_is_loaded(self):
        for by in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(by=by.name):
                engine = self.listening("slow")
                # Kept: one that nobody holds is cancelled.
                _warming = self.client().WarmUp.future(pb.WarmUpRequest(), timeout=LONG_S)
                self.assertEqual(engine.stdout.readline(), "loading\n")
                os.killpg(engine.pid, by)
                _, error = engine.communicate(timeout=LONG_S)
                self.assertEqual([engine.returncode, error], [0, ""])

    def test_that_end_while_the_model_is_loaded_are_told_of(self):
        engine = self.listening("exit")
        with self.assertRaises(grpc.RpcError) as caught:
            self.client().WarmUp(pb.WarmUpRequest(), timeout=LONG_S)
        told = "the process ended while the model was loaded: exit status 3"
        self.assertEqual(caught.exception.details(), told)
        self.assertEqual(self.end(engine), f"the model cannot be loaded: {told}\n")


def optioned(**changes):
    option = {"name": "steps", "type": "integer", "description": "Steps.", **changes}
    return Capability("avatar", 1, options=[Option(**option)])


class Words(Served):
    def test_say_that_a_render_returned_nothing(self):
        engine, client = self.listening(), self.client()
        client.WarmUp(pb.WarmUpRequest(), timeout=LONG_S)
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.render(client, "nothing"))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INTERNAL)
        self.assertEqual(self.end(engine), "render() returned None, not a Result\n")

    def test_announce_voices_with_their_variants_as_the_contract_has_them(self):
        told = speech_of(Speech([Voice("amy", "en-gb", "female", ["/1"]), Voice("old", "de")], ["en", "de"]))
        self.assertEqual([(each.id, each.gender, each.variants) for each in told.voices], [("amy", "female", "amy"), ("old", "", "")])
        self.assertEqual([(each.name, list(each.endings)) for each in told.variants], [("amy", ["/1"])])
        self.assertEqual(list(told.languages), ["en", "de"])
        self.assertIsNone(speech_of(None))

    def test_name_the_field_that_is_wrong_before_there_is_a_socket(self):
        good = Capability("avatar", memory_mib=1)
        for changes, fault in [
            ({"name": ""}, "Own.name is '', not a text"),
            ({"version": 1}, "Own.version is 1, not a text"),
            ({"concurrency": 0}, "Own.concurrency is 0, not a whole number from 1"),
            ({"capabilities": []}, "Own.capabilities is [], not a list"),
            ({"capabilities": ["avatar"]}, "Own.capabilities[0] is 'avatar', not a Capability("),
            ({"capabilities": [good, Capability("x")]}, "Own.capabilities[1].memory_mib is 0, not a whole"),
            ({"vram_mib": -1}, "Own.vram_mib is -1, not a whole number from 0"),
            ({"capabilities": [Capability("x", 1, vram_mib=0.5)]}, "Own.capabilities[0].vram_mib is 0.5, not a whole"),
            ({"capabilities": [Capability("x", 1.5)]}, "Own.capabilities[0].memory_mib is 1.5, not a whole"),
            ({"capabilities": [Capability("x", 1, True)]}, "Own.capabilities[0].slots is True, not a whole"),
            ({"capabilities": [Capability("", 1)]}, "Own.capabilities[0].name is '', not the name"),
            ({"capabilities": [Capability("x", 1, limits={})]}, "Own.capabilities[0].limits is {}, not"),
            (
                {"capabilities": [Capability("x", 1, limits=Limits(max_pixels=1.5))]},
                "Own.capabilities[0].limits.max_pixels is 1.5, not a whole number from 0",
            ),
            ({"capabilities": [Capability("x", 1, options=3)]}, "Own.capabilities[0].options is 3, not a list"),
            ({"capabilities": [Capability("x", 1, options=["s"])]}, "Own.capabilities[0].options[0] is 's', not an Option("),
            ({"capabilities": [Capability("x", 1, speech={})]}, "Own.capabilities[0].speech is {}, not Speech("),
            ({"capabilities": [Capability("x", 1, speech=Speech(["amy"], ["en"]))]}, "speech is Speech(voices=['amy']"),
            ({"capabilities": [optioned(name="S")]}, "Own.capabilities[0].options[0].name is 'S', not lower-case"),
            ({"capabilities": [optioned(type="colour")]}, "options[0].type is 'colour', not one of integer,"),
            ({"capabilities": [optioned(description=" ")]}, "options[0].description is ' ', not a sentence"),
            ({"capabilities": [optioned(minimum="1")]}, "options[0].minimum is '1': only an integer"),
            ({"capabilities": [optioned(minimum=2, maximum=1)]}, "options[0].minimum is 2, above maximum"),
            ({"capabilities": [optioned(type="choice")]}, "options[0].choices is (), not a list of texts"),
            ({"capabilities": [optioned(choices=["a"])]}, "options[0].choices is ['a'], but the type is integer"),
            ({"capabilities": [optioned(default=1.5)]}, "options[0].default is 1.5, which is no value of it"),
            ({"capabilities": [optioned(default=True)]}, "options[0].default is True, which is no value of it"),
            ({"capabilities": [optioned(max_length=2001)]}, "options[0].max_length is 2001, not a whole number"),
            ({"capabilities": [good, good]}, "Own.capabilities[1].name is 'avatar' once more"),
        ]:
            own = type("Own", (RoughEngine,), changes)
            self.assertIn(fault, self.refusal(own))
        self.assertIn("serve() takes a subclass of Engine, not <rough_engine", self.refusal(RoughEngine()))

    def refusal(self, engine_class):
        words = ["engine", "--socket", self.path]
        with mock.patch.object(sys, "argv", words), redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as caught:
            serve(engine_class)
        self.assertFalse(os.path.exists(self.path))
        self.assertNotIn("\n", caught.exception.code)
        return caught.exception.code


if __name__ == "__main__":
    unittest.main()
