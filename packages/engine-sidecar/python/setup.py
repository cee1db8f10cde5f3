"""Generates the stubs of the contract when the package is built, so that the repository has none."""

import pathlib
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
PROTO = "semblance/engine/v1/engine.proto"
FINDINGS = "semblance/engine/v1/findings.proto"
LIVE = "semblance/engine/live/v1/live_engine.proto"


class BuildWithStubs(build_py):
    def run(self):
        super().run()
        root = next((p / "proto" for p in HERE.parents if (p / "proto" / PROTO).exists()), None)
        if root is None:
            raise SystemExit(f"no folder above {HERE} has proto/{PROTO}")
        out = self.build_lib
        command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{root}", PROTO, FINDINGS, LIVE]
        subprocess.check_call([*command, f"--python_out={out}", f"--grpc_python_out={out}"])


setup(cmdclass={"build_py": BuildWithStubs})
