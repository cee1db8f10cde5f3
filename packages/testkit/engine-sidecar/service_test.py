"""What the process in front does when processes that render are lost; run by python.test.ts."""

import errno
import os
import resource
import signal
import tempfile
import time
import unittest
from contextlib import contextmanager
from unittest import mock

import grpc
from rough_engine import RoughEngine
from semblance.engine.v1 import engine_pb2 as pb
from semblance_sidecar.server import _Service
from semblance_sidecar.worker import Worker


class Aborted(Exception):
    pass


class Context:
    """The part of a gRPC call that the service uses."""

    def is_active(self):
        return True

    def abort(self, code, message):
        raise Aborted(code, message)


@contextmanager
def no_more_files():
    """The limit on open files is where this process has come to, as when nothing is left of the machine."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.dup(0)
    os.close(taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Serviced(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        os.mkdir(os.path.join(self.root, "out"))
        with open(os.path.join(self.root, "image"), "w") as file:
            file.write("an image")
        self.service = _Service(RoughEngine, self.root)
        self.addCleanup(self.service.close)

    def warm_up(self):
        self.service.WarmUp(pb.WarmUpRequest(), Context())

    def kill_workers(self):
        for worker in self.service._workers:
            os.kill(worker._process.pid, signal.SIGKILL)
            worker._process.join()

    def render(self):
        request = pb.RenderRequest(
            render_id="one",
            capability="face-swap-image",
            inputs={"image": "image"},
            parameters={"mode": "ok"},
            output_dir="out",
        )
        return list(self.service.Render(request, Context()))[-1].result.output_file

    def serving(self):
        return self.service.Health(pb.HealthRequest(), Context()).serving

    def until(self, holds):
        end = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), end, "not in time")
            time.sleep(0.05)


class LostWorkers(Serviced):
    def test_renders_although_workers_died_while_they_were_idle(self):
        self.warm_up()
        self.kill_workers()
        self.assertEqual(self.render(), "out.png")

    def test_renders_although_a_worker_dies_just_before_it_has_its_work(self):
        self.warm_up()
        broken = [BrokenPipeError(errno.EPIPE, "Broken pipe")]
        send = Worker.send

        def fails_once(worker, work):
            if broken:
                raise broken.pop()
            send(worker, work)

        with mock.patch.object(Worker, "send", fails_once):
            self.assertEqual(self.render(), "out.png")
        self.until(lambda: self.service._idle.qsize() == len(self.service._workers))

    def test_workers_that_all_die_before_they_have_their_work_are_a_fault_of_the_moment(self):
        self.warm_up()
        broken = BrokenPipeError(errno.EPIPE, "Broken pipe")
        with mock.patch.object(Worker, "send", side_effect=broken), self.assertRaises(Aborted) as caught:
            self.render()
        self.assertEqual(caught.exception.args[0], grpc.StatusCode.ABORTED)
        # Neither that worker is lost nor another one.
        self.until(lambda: self.service._idle.qsize() == len(self.service._workers))
        self.assertEqual(self.render(), "out.png")

    def test_says_so_while_a_process_cannot_be_started_and_tries_again(self):
        self.warm_up()
        self.kill_workers()
        with no_more_files():
            while not self.service._idle.empty():
                self.service._give_back(self.service._idle.get())
            self.until(lambda: not self.serving())
        self.until(self.serving)
        self.until(lambda: self.service._idle.qsize() == len(self.service._workers))
        self.assertEqual(self.render(), "out.png")

    def test_is_warmed_up_again_after_no_process_could_be_started(self):
        with no_more_files(), self.assertRaises(Aborted) as caught:
            self.warm_up()
        self.assertEqual(caught.exception.args[0], grpc.StatusCode.FAILED_PRECONDITION)
        self.warm_up()
        self.assertEqual(self.render(), "out.png")


class Options(Serviced):

    def asked(self, **options):
        request = pb.RenderRequest(
            render_id="one",
            capability="face-swap-image",
            inputs={"image": "image"},
            parameters={"mode": "options"},
            options=options,
            output_dir="out",
        )
        answers = list(self.service.Render(request, Context()))
        return [answer.progress.stage for answer in answers if answer.progress.stage.startswith("[")]

    def test_are_told_with_their_bounds(self):
        info = self.service.GetInfo(pb.GetInfoRequest(), Context())
        strength, steps, sharp, look = info.capabilities[0].options
        self.assertEqual((strength.minimum, strength.maximum, strength.default), (0, 1, "0.5"))
        self.assertFalse(steps.HasField("maximum") or steps.HasField("default"))
        self.assertEqual((sharp.type, sharp.default), ("boolean", "true"))
        self.assertEqual(list(look.choices), ["plain", "film"])

    def test_come_to_a_render_as_values(self):
        self.warm_up()
        self.assertEqual(
            self.asked(steps="3", strength="0.25", sharp="false", look="film")[:1],
            ["[('look', 'film'), ('sharp', False), ('steps', 3), ('strength', 0.25)]"[:64]],
        )
        self.assertEqual(self.asked()[:1], ["[]"])

    def test_that_it_has_not_are_refused(self):
        self.warm_up()
        with self.assertRaises(Aborted) as caught:
            self.asked(seed="1")
        self.assertEqual(caught.exception.args, (grpc.StatusCode.INVALID_ARGUMENT, "no such option: seed"))


if __name__ == "__main__":
    unittest.main()
