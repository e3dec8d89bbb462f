"""Input kinds and the verdict on one input: refused with a message, read right, or a failure."""

from __future__ import annotations

import math
import resource
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kgprobe.errors import KgprobeError

Files = Mapping[str, bytes]
"""An input: the content of its files, by their names in a folder."""

REFUSED, ACCEPTED, FAILED = "refused", "accepted", "failed"


@dataclass(frozen=True)
class Kind:
    """A kind of input that kgprobe reads.

    Attributes:
        name: Its name on the command line of the fuzzer.
        make: Valid inputs, from which others are made by mutation.
        read: Reads the input in a folder with kgprobe; returns lists, dictionaries, texts and numbers.
        expect: Reads it with plain modules, by the definition of the format; any exception means that it is invalid.
        named: Whether a refusal must name a file or the folder of the input.
        tolerance: Relative tolerance for numbers.
        seconds: Time that one input may take.
    """

    name: str
    make: Callable[[], Sequence[Files]]
    read: Callable[[Path], Any]
    expect: Callable[[Path], Any]
    named: bool = True
    tolerance: float = 0.0
    seconds: float = 30.0

    @cached_property
    def seeds(self) -> Sequence[Files]:
        """The valid inputs. One is read, to import modules, which may take longer than an input may."""
        made = self.make()
        with TemporaryDirectory() as scratch, suppress(Exception):  # which is judged later
            write(made[0], Path(scratch) / "input")
            self.read(Path(scratch) / "input")
        return made


@dataclass(frozen=True)
class Verdict:
    """What became of an input: the outcome, for a failure also what happened and where in kgprobe."""

    outcome: str
    problem: str = ""
    where: str = ""

    def __str__(self) -> str:
        return f"{self.outcome}: {self.problem}" + (f" at {self.where}" if self.where else "")


class Overtime(BaseException):
    """Raised in a reader that takes too long; no reader catches it by accident."""


MEMORY = 4 << 30
"""Bytes that a reader may allocate beyond what the process has."""


@contextmanager
def limited(seconds: float, memory: int = MEMORY) -> Iterator[None]:
    """Limit the time and the memory of a block."""

    def stop(_signal: int, _frame: Any) -> None:
        raise Overtime(f"more than {seconds:g} s")

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, hard))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextmanager
def unraised() -> Iterator[list[BaseException]]:
    """Collect the exceptions that Python can only print, such as those in a callback of pyarrow."""
    found: list[BaseException] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda problem: found.append(problem.exc_value or RuntimeError(str(problem.err_msg)))
    try:
        yield found
    finally:
        sys.unraisablehook = before


def write(files: Files, folder: Path) -> None:
    """Write an input into a folder, in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def judge(kind: Kind, files: Files, folder: Path) -> Verdict:
    """Read an input with kgprobe, and compare what was read with the plain reader."""
    write(files, folder)
    with warnings.catch_warnings(record=True) as caught, unraised() as tracebacks:
        warnings.simplefilter("always")
        try:
            with limited(kind.seconds):
                result = kind.read(folder)
        except KgprobeError as error:
            if not tracebacks:
                return _refusal(kind, error, files, folder)
        except (Exception, Overtime) as error:
            return Verdict(FAILED, f"{type(error).__name__}: {str(error)[:200]}", _place(error))
    if tracebacks:
        return Verdict(FAILED, f"a traceback on standard error: {tracebacks[0]}", _place(tracebacks[0]))
    if complaints := [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]:
        warning = complaints[0]
        return Verdict(FAILED, f"warning: {warning.message}", f"{Path(warning.filename).name}:{warning.lineno}")
    write(files, folder)  # a reader may have changed its input, such as a run that it resumes
    try:
        with warnings.catch_warnings(action="ignore"):
            expected = kind.expect(folder)
    except Exception as error:
        return Verdict(FAILED, f"accepted, but invalid: {type(error).__name__}: {str(error)[:200]}")
    difference = differ(result, expected, kind.tolerance)
    return Verdict(FAILED, f"wrong value: {difference}") if difference else Verdict(ACCEPTED)


def _refusal(kind: Kind, error: KgprobeError, files: Files, folder: Path) -> Verdict:
    text = str(error)
    if not error.title.strip():
        return Verdict(FAILED, f"refused without a message: {text!r}", _place(error))
    if kind.named and not any(name in text for name in (folder.name, *map(str, files))):
        return Verdict(FAILED, f"refused without the name of the file: {text[:200]}", _place(error))
    return Verdict(REFUSED)


def _place(error: BaseException) -> str:
    """The innermost function of kgprobe in which an exception was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/kgprobe/" in frame.filename]
    frames = frames or traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    file = frames[-1].filename
    return f"{file[file.rfind('/kgprobe/') + 1 :]}:{frames[-1].lineno} ({frames[-1].name})"


@dataclass(frozen=True)
class OneOf:
    """Several values, each of which would be right; any value if there are none."""

    values: Sequence[Any]


def differ(found: Any, expected: Any, tolerance: float = 0.0, at: str = "") -> str:
    """The first difference between what was read and what must come out, or an empty text.

    NaN equals nothing, not even NaN: no reader may return it. Whole numbers may be ints or floats.
    """
    if isinstance(expected, OneOf):
        differences = [differ(found, value, tolerance, at) for value in expected.values]
        return differences[0] if differences and all(differences) else ""
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        if found.keys() != expected.keys():
            return f"{at or 'keys'}: {sorted(map(str, found))} instead of {sorted(map(str, expected))}"
        return next((d for key in expected if (d := differ(found[key], expected[key], tolerance, f"{at}.{key}"))), "")
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(found) != len(expected):
            return f"{at}: {len(found)} values instead of {len(expected)}"
        pairs = enumerate(zip(found, expected, strict=True))
        return next((d for i, (f, e) in pairs if (d := differ(f, e, tolerance, f"{at}[{i}]"))), "")
    numbers = all(isinstance(value, int | float) for value in (found, expected))
    if numbers and tolerance and math.isclose(found, expected, rel_tol=tolerance):
        return ""
    same = found == expected and (numbers or type(found) is type(expected))
    return "" if same else f"{at}: {_short(found)} instead of {_short(expected)}"


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write very long numbers
        text = "a very long number"
    return text if len(text) <= 80 else text[:77] + "..."


def require(condition: Any, why: str) -> None:
    """State a rule of a format in a plain reader."""
    if not condition:
        raise ValueError(why)


def only_file(folder: Path) -> Path:
    """The file of an input that is one file."""
    (path,) = folder.iterdir()
    return path
