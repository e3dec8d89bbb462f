"""Run the fuzzers: ``python tests/fuzz/run.py --inputs 10000 --workers 16``; ``--replay FOLDER`` repeats a failure.

Every input is made from its kind, the seed and its number, so a run can be repeated. Failures are saved as folders.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

if __name__ == "__main__":
    # Processes are forked, which threads of libraries do not survive.
    os.environ |= {"OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz.campaign import PATIENCE, Counts, run, table
from fuzz.inputs import FAILED, judge
from fuzz.kinds import KINDS

STARTING = 300
"""Seconds in which a process with coverage guidance has imported everything and made its valid inputs."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Fuzz everything that kgprobe reads.")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="a kind of input; all by default")
    parser.add_argument("--inputs", type=int, default=2000, help="inputs of each kind")
    parser.add_argument("--minutes", type=float, help="run all kinds for this time instead")
    parser.add_argument("--seed", type=int, help="seed of the mutations; a random one with --minutes, else 0")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    parser.add_argument("--failures", type=Path, default=Path("fuzz_failures"), help="folder for inputs that fail")
    parser.add_argument("--json", type=Path, help="write the counts to this file as well")
    parser.add_argument("--guided", action="store_true", help="use coverage guidance, if atheris is installed")
    parser.add_argument("--replay", type=Path, help="judge the input in this folder, of the kind that --kind names")
    options = parser.parse_args()
    kinds = {name: KINDS[name] for name in options.kind or KINDS}
    if options.replay is not None:
        return replay(options.replay, *kinds)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9) if options.minutes else 0
    print(f"seed {seed}, {options.workers} workers", flush=True)
    if options.guided and options.minutes and find_spec("atheris") is not None:
        counts = guided(list(kinds), seed, options.minutes, options.workers, options.failures)
    else:
        counts = run(kinds, seed, options.inputs, options.minutes, options.workers, options.failures)
    print(table(counts))
    if options.json is not None:
        failures = {count.kind: {name: count.examples[name] for name in count.failures} for count in counts}
        rows = {"seed": seed, "counts": [count.row() for count in counts], "failures": failures}
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return int(any(count.failures for count in counts))


def replay(folder: Path, *kinds: str) -> int:
    """Judge a saved input once more."""
    if len(kinds) > 1:
        sys.exit("--replay needs --kind")
    files = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    with tempfile.TemporaryDirectory() as scratch:
        verdict = judge(KINDS[kinds[0]], files, Path(scratch) / "input")
    print(verdict)
    return int(verdict.outcome == FAILED)


def guided(names: list[str], seed: int, minutes: float, workers: int, failures: Path) -> list[Counts]:
    """Fuzz every kind for its share of the time with coverage guidance, each in a process of its own."""
    seconds = max(10, round(60 * minutes * workers / len(names)))
    program = Path(__file__).with_name("guided.py")

    def one(name: str) -> Counts:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
            command = [sys.executable, program, name, str(seed), str(seconds), failures, scratch]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                try:
                    code = process.wait(seconds + STARTING + PATIENCE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    code = process.wait()
            found = Path(scratch) / "counts.json"
            counts = Counts.read(found) if found.exists() else Counts(name)
            if code:
                counts.add_crash(code, Path(scratch), failures / name / f"{seed}-guided-crash")
            return counts

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, names))


if __name__ == "__main__":
    sys.exit(main())
