"""Runs the front process of an engine until it is told to end."""

import argparse
import os
import signal
import sys
from concurrent import futures

import grpc

from . import listen

DEFAULT_SOCKET = "/run/semblance/engine.sock"


def _on_end():
    """Makes SIGTERM and Ctrl-C do nothing but end the wait of the returned function."""
    # It reads a pipe, because a signal to another thread does not wake a main thread that waits for a lock.
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    ends = (signal.SIGTERM, signal.SIGINT)
    for each in ends:
        signal.signal(each, lambda *_: None)

    def wait() -> None:
        while os.read(read, 1)[0] not in ends:
            pass

    return wait


def until_end(engine_class, threads: int, add) -> None:
    """Serves until SIGTERM or Ctrl-C.

    `threads` is the most calls at once. `add` adds the service to a server, given the folder of the socket, and returns it.
    """
    parser = argparse.ArgumentParser(description=f"{engine_class.name} as an engine of Semblance")
    parser.add_argument("--socket", default=os.environ.get("SEMBLANCE_SIDECAR_SOCKET", DEFAULT_SOCKET))
    socket = os.path.abspath(parser.parse_args().socket)
    # The group has access, because agent and sidecar may run as different users.
    os.umask(0o007)
    wait_for_end = _on_end()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=threads))
    try:
        listen.assert_free(socket)
        service = add(os.path.dirname(socket), server)
        identity = listen.bind(server, socket)
    except listen.Unusable as error:
        sys.exit(str(error))
    server.start()
    print(f"{engine_class.name} {engine_class.version} listens on {socket}", flush=True)
    wait_for_end()
    listen.remove(socket, identity)
    server.stop(grace=0.5).wait()
    service.close()
