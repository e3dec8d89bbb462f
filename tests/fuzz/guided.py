"""Coverage-guided fuzzing of one kind with atheris: inputs that reach new code of kgprobe are mutated further.

Usage: ``python tests/fuzz/guided.py KIND SEED SECONDS FAILURES SCRATCH``; the counts are in SCRATCH/counts.json.
"""

from __future__ import annotations

import io
import os
import sys
import tarfile
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
    sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from fuzz.inputs import Files

SAVED_EVERY = 100


def packed(files: Files) -> bytes:
    """An input of several files as one text of bytes, as libFuzzer keeps them."""
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return sink.getvalue()


def unpacked(data: bytes) -> Files:
    """The files of an input; none if libFuzzer has made bytes that are no archive."""
    try:
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = [member for member in archive if member.isfile()]
            return {member.name: archive.extractfile(member).read() for member in members}  # type: ignore[union-attr]
    except (tarfile.TarError, ValueError, EOFError):
        return {}


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["kgprobe"], enable_loader_override=False):
        from fuzz.campaign import Counts
        from fuzz.kinds import KINDS
        from fuzz.mutators import mutated
    name, seed, seconds, failures, scratch = sys.argv[1:]
    kind, place = KINDS[name], Path(scratch)
    counts = Counts(name)
    corpus = place / "corpus"
    corpus.mkdir()
    for i, files in enumerate(kind.seeds):
        (corpus / str(i)).write_bytes(packed(files))

    def judge(data: bytes) -> None:
        files = unpacked(data)
        if not files:
            return
        number = counts.outcomes.total()
        counts.judge(kind, files, place / "input", Path(failures) / name / f"{seed}-guided-{number}")
        if number % SAVED_EVERY == 0:
            counts.write(place / "counts.json")

    def mutate(data: bytes, most: int, random_seed: int) -> bytes:
        random = Random(random_seed)
        files = unpacked(data) or random.choice(kind.seeds)
        changed = packed(mutated(files, random, random.choice(kind.seeds)))
        return changed if len(changed) <= most else data[:most]

    limits = [f"-seed={int(seed) % 2**31}", f"-max_total_time={seconds}", "-mutate_depth=1"]
    limits += ["-max_len=1000000", "-rss_limit_mb=8000"]
    atheris.Setup([sys.argv[0], *limits, str(corpus)], judge, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
