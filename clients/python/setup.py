"""Generates a part of the package when it is built, so that the repository has none of it."""

import pathlib
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))


class BuildWithGenerated(build_py):
    def run(self) -> None:
        from generate import generate

        super().run()
        document = next((path for path in (HERE / "openapi.json", HERE.parent / "openapi.json") if path.exists()), None)
        if document is None:
            raise SystemExit("there is no openapi.json: `npm run generate:clients` writes it")
        generate(document, pathlib.Path(self.build_lib) / "semblance")


setup(cmdclass={"build_py": BuildWithGenerated})
