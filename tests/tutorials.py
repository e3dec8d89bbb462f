"""Run the tutorials of docs/tutorials as a reader would: every command, every block of Python, in order."""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "docs" / "tutorials"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CHECKER = doctest.OutputChecker()
_LOOSELY = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass
class Step:
    """Something that a reader types, and what the tutorial says that it prints ("" where it does not say)."""

    kind: str
    source: str
    line: int
    expected: str = ""


def steps(text: str) -> list[Step]:
    """The steps of a tutorial: commands after "$ " in console blocks, and Python blocks with the text block below."""
    found: list[Step] = []
    for block in _BLOCK.finditer(text):
        kind, body = block.groups()
        line = text.count("\n", 0, block.start()) + 2
        if kind == "console":
            found += _commands(body, line)
        elif kind == "python":
            found.append(Step("python", body, line))
        elif kind == "text":
            found[-1].expected = body
    return found


def _commands(body: str, line: int) -> Iterator[Step]:
    step: Step | None = None
    for number, text in enumerate(body.splitlines(keepends=True), line):
        if text.startswith("$ "):
            if step:
                yield step
            step = Step("console", text[2:], number)
        elif step and step.source.endswith("\\\n"):
            step.source += text
        elif step:
            step.expected += text
    if step:
        yield step


class Reader:
    """A reader in an empty folder, with one Python session and a shell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {}
        programs = folder / ".bin"
        programs.mkdir()
        command = programs / "kgprobe"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kgprobe "$@"\n')
        command.chmod(0o755)
        # The output must not depend on the surroundings; results and notes come in the order of a terminal.
        fixed = {"COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
        self.environment = os.environ | fixed | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}

    def follow(self, tutorial: Path) -> list[str]:
        """Take all steps; what differs from the tutorial, one text for each step."""
        found = steps(tutorial.read_text(encoding="utf-8"))
        assert found, f"{tutorial.name} has no steps"
        wrong = []
        for step in found:
            printed = self._type(step)
            if step.expected and not _CHECKER.check_output(step.expected, printed, _LOOSELY):
                wrong.append(f"{tutorial.name}, line {step.line}:\n{step.source}\nprinted\n{printed}")
        return wrong

    def _type(self, step: Step) -> str:
        if step.kind == "python":
            printed = io.StringIO()
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
                exec(compile(step.source, f"<line {step.line}>", "exec"), self.names)
            return printed.getvalue()
        done = subprocess.run(
            ["bash", "-c", step.source],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"line {step.line}: {step.source}{done.stdout}"
        return done.stdout
