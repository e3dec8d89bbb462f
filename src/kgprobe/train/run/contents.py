"""What a folder holds: a run, other things, or what a killed process has left."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from kgprobe.errors import UsageError
from kgprobe.train.run import names

_TEMPORARY = re.compile(r"\..+\.\d+\.tmp")
"""A file that was being written; see `kgprobe.files.replacing`."""
_LEFT = (names.LOCK, names.ENVIRONMENT)
"""What is there before there is a run, or after it has been thrown away."""


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / names.SETTINGS).is_file()


def require_room(folder: Path) -> None:
    """Refuse a folder that holds other things, which a run must not be mixed with."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder}: it is a file, and a run needs a folder", remedy="choose another --output")
    if not folder.exists() or is_run(folder):
        return
    others = sorted(entry.name for entry in folder.iterdir() if entry.name not in _LEFT and not _temporary(entry))
    if others:
        shown = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
        raise UsageError(
            f"{folder}: it holds other things than a run", [f"there are: {shown}"], "choose a new or an empty folder"
        )


def require_no_run(folder: Path, *, force: bool) -> None:
    """Refuse a folder that holds a run, unless it is to be thrown away."""
    if force or not is_run(folder):
        return
    if (folder / names.RESULT).exists():
        raise UsageError(f"{folder}: it holds a finished run", remedy="--force trains anew in its place")
    raise UsageError(
        f"{folder}: it holds a run that is not finished", remedy="--resume goes on with it, --force begins anew"
    )


def require_run(folder: Path) -> None:
    """Refuse a folder without a run."""
    if not is_run(folder):
        there = f"it has no {names.SETTINGS}" if folder.is_dir() else "there is no such folder"
        raise UsageError(f"{folder}: there is no run to go on with", [there], "leave --resume out to begin one")


def clear(folder: Path) -> None:
    """Remove a run, and nothing else.

    The settings go last but for what may be there without a run, so that a process killed half-way leaves a folder
    that is still known to be a run.
    """
    clear_temporary(folder)
    for file in (names.RESULT, *_ranks(folder), names.STATE, names.LOG, names.CURVE):
        (folder / file).unlink(missing_ok=True)
    for kept in (folder / names.BEST, folder / names.SNAPSHOTS):
        for checkpoint in kept.glob("*/seed-*.safetensors"):
            checkpoint.unlink()
        for emptied in (*kept.glob("*"), kept):
            if emptied.is_dir() and not any(emptied.iterdir()):
                emptied.rmdir()
    for file in (names.SETTINGS, names.ENVIRONMENT):
        (folder / file).unlink(missing_ok=True)


def clear_temporary(folder: Path) -> None:
    """Remove files that a killed process was writing."""
    for place in (folder, *(folder / names.BEST).glob("*/"), *(folder / names.SNAPSHOTS).glob("*/")):
        for entry in place.iterdir():
            if _temporary(entry):
                entry.unlink()


def _ranks(folder: Path) -> Iterator[str]:
    return (entry.name for entry in folder.glob("ranks*.parquet") if re.fullmatch(r"ranks(-.+)?", entry.stem))


def _temporary(entry: Path) -> bool:
    return bool(_TEMPORARY.fullmatch(entry.name)) and entry.is_file()
