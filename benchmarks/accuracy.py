"""Train models with the packaged settings, and set their test scores beside the published ones.

    python benchmarks/accuracy.py train complex:umls tucker:umls -o runs [--device cuda] [--processes 2]
    python benchmarks/accuracy.py show runs
    python benchmarks/accuracy.py record runs [more-runs ...]
    python benchmarks/accuracy.py table

Three seeds each. Every run is selected by four perspectives at once, or by those of `--select`, on validation facts
only; its test facts are ranked once for each. `show` prints two tables in Markdown: accuracy, with head and tail apart,
and what each way to select wins and loses. `record` writes what was measured into the packaged settings, and
`table` prints what is recorded there. Seeds that were trained apart (`--seeds 0 -o runs-0`, `--seeds 1 -o runs-1`, ...)
are recorded together: a seed learns the same alone as beside others.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import kgprobe as kp
from kgprobe.files import replacing
from kgprobe.models.registry import model_kind
from kgprobe.train.setting_sources import MEASURED, packaged, read_toml, toml_text

TARGETS = ("PROBE(alpha=1,beta=0)", "PROBE(alpha=0,beta=0)", "PROBE(alpha=-1,beta=0)", "PROBE(alpha=1,beta=0.8)")

PAPER = {  # Table RQ1 of the PROBE paper at alpha = 1, beta = 0: mean of three seeds
    "rotate": {"fb15k-237": 0.3140, "wn18rr": 0.4641, "family": 0.9487, "umls": 0.7784, "kinship": 0.6336},
    "complex": {"fb15k-237": 0.3146, "wn18rr": 0.4754, "family": 0.9434, "umls": 0.6046, "kinship": 0.5394},
    "house": {"fb15k-237": 0.3073, "wn18rr": 0.4184, "family": 0.9757, "umls": 0.8354, "kinship": 0.6808},
    "tucker": {"fb15k-237": 0.3530, "wn18rr": 0.4625, "family": 0.9784, "umls": 0.8439, "kinship": 0.7067},
    "plogicnet": {"fb15k-237": 0.3241, "wn18rr": 0.4957, "family": 0.8119, "umls": 0.5781, "kinship": 0.3771},
    "rnnlogic": {"fb15k-237": 0.3197, "wn18rr": 0.4807, "family": 0.9737, "umls": 0.7942, "kinship": 0.6417},
}

OWN = {  # the models' own papers or code, plain MRR
    "rotate": {"fb15k-237": 0.337, "wn18rr": 0.477},
    "complex": {"fb15k-237": 0.35, "wn18rr": 0.47},
    "house": {"fb15k-237": 0.361, "wn18rr": 0.511},
    "tucker": {"fb15k-237": 0.358, "wn18rr": 0.470},
    "plogicnet": {"fb15k-237": 0.332, "wn18rr": 0.441},
    "rnnlogic": {"fb15k-237": 0.349, "wn18rr": 0.513, "umls": 0.842, "kinship": 0.722},
}


def train(given: argparse.Namespace) -> None:
    """Train all pairs, some at a time."""
    given.output.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(given.processes) as pool:
        list(pool.map(partial(_train, given), given.pairs))
    show(given)


def _train(given: argparse.Namespace, pair: str) -> None:
    model, graph = pair.split(":")
    run = given.output / f"{model}-{graph}"
    options = [f"--select={target}" for target in given.select or TARGETS]
    options += [f"--device={given.device}", f"--seeds={given.seeds}"]
    options += [f"--threads={given.threads}"] if given.threads else []
    command = [sys.executable, "-m", "kgprobe", "train", model, "--graph", graph, "-o", str(run), *options]
    with (given.output / f"{model}-{graph}.log").open("w", encoding="utf-8") as log:
        code = subprocess.run(
            [*command, "--resume" if run.exists() else "--force"], stdout=log, stderr=subprocess.STDOUT, check=False
        )
    print(f"{pair}: exit {code.returncode}", flush=True)


def show(given: argparse.Namespace) -> None:
    """Print the tables of all finished runs."""
    runs = [path.parent for path in sorted(given.output.glob("*/result.json"))]
    _print_accuracy((run.name.split("-", 1), _measured([run])) for run in runs)
    print("\n| run | selected by | " + " | ".join(TARGETS) + " | epochs |")
    print("|---|---|" + "---|" * (len(TARGETS) + 1))
    for run in runs:
        for row in _perspectives(run):
            print(f"| {run.name} | " + " | ".join(row) + " |")


def record(given: argparse.Namespace) -> None:
    """Write the table [measured] of the packaged settings of all finished runs."""
    names = sorted({path.parent.name for output in given.outputs for path in output.glob("*/result.json")})
    for name in names:
        runs = [output / name for output in given.outputs if (output / name / "result.json").exists()]
        file = packaged(*name.split("-", 1))
        if file is None or not all(_made_by(file, run / "settings.toml") for run in runs):
            print(f"{name}: not made by packaged settings, nothing recorded")
            continue
        settings = file.read_text("utf-8").split(f"\n[{MEASURED}]")[0].rstrip()
        with replacing(file) as new:
            new.write_text(f"{settings}\n{toml_text({MEASURED: _measured(runs, given.note)})}", encoding="utf-8")
        print(f"recorded in {file.parent.name}/{file.name}")


def _made_by(file: Path, settings: Path) -> bool:
    """Whether a run has the settings of a file."""
    own, packed = read_toml(settings).values, read_toml(file).values
    return all(own.get(key) == value for key, value in packed.items() if key not in ("graph_hash", "select"))


def table(given: argparse.Namespace) -> None:
    """Print what the packaged settings say that they led to, beside the published values."""
    graphs = [*PAPER["rotate"], "yago3-10_quarter"]
    files = ((model, graph, packaged(model, graph)) for graph in graphs for model in PAPER)
    found = (((model, graph), read_toml(file).tables.get(MEASURED)) for model, graph, file in files if file)
    _print_accuracy((pair, measured) for pair, measured in found if measured)


def _selected_by(run: Path, targets: Iterable[str]) -> str:
    """The metric that the packaged settings select by first, where the run has it, else the run's own first."""
    model, graph = run.name.split("-", 1)
    file = packaged(model, graph)
    wanted = read_toml(file).values.get("select", TARGETS) if file else TARGETS
    return next((target for target in wanted if target in targets), next(iter(targets)))


def _measured(runs: Sequence[Path], note: str = "") -> dict[str, Any]:
    """What came out of a run, or of several that have trained some of the seeds each."""
    results = [json.loads((run / "result.json").read_text("utf-8")) for run in runs]
    about = json.loads((runs[0] / "environment.json").read_text("utf-8"))
    selected_by = _selected_by(runs[0], results[0]["targets"])
    found = [result["targets"][selected_by] for result in results]
    checkpoints = [checkpoint for one in found for checkpoint in one["checkpoints"]]
    test = {
        side: [value for one in found for value in one["test"][side][TARGETS[0]]] for side in ("both", "head", "tail")
    }
    memory = {place: max(result["peak_memory"][place] for result in results) for place in results[0]["peak_memory"]}
    cores = "" if about["device"] == "cuda" else f", {about['threads']} of {about['cores']} cores"
    return {
        "metric": TARGETS[0],
        "selected_by": selected_by,
        "seeds": [checkpoint["seed"] for checkpoint in checkpoints],
        "validation": _mean([checkpoint["score"] for checkpoint in checkpoints]),
        "test": _mean(test["both"]),
        "test_of_seeds": [round(value, 4) for value in test["both"]],
        "head": _mean(test["head"]),
        "tail": _mean(test["tail"]),
        "epochs": [checkpoint["epoch"] for checkpoint in checkpoints],
        "seconds": round(max(result["seconds"] for result in results)),
        **{f"{place}_gib": round(size / 2**30, 1) for place, size in memory.items()},
        "machine": f"{about['device_name']}{cores}, {_together(runs)}{note}",
        "date": str(date.fromtimestamp((runs[0] / "result.json").stat().st_mtime)),
    }


def _together(runs: Sequence[Path]) -> str:
    return "all seeds at once" if len(runs) == 1 else "each seed in a process of its own"


def _mean(values: Sequence[float]) -> float:
    return round(float(np.mean(values)), 4)


def _print_accuracy(rows: Iterable[tuple[Sequence[str], Mapping[str, Any]]]) -> None:
    columns = "graph model test seeds head tail paper own_paper selected_by settings seconds machine date"
    print("\n| " + " | ".join(name.replace("_", " ") for name in columns.split()) + " |")
    print("|---|---|---:|---|---:|---:|---:|---:|---|---|---:|---|---|")
    for (model, graph), measured in rows:
        seeds = measured["test_of_seeds"]
        cells = [graph, model_kind(model).name, f"{measured['test']:.4f}", f"{min(seeds):.4f} to {max(seeds):.4f}"]
        cells += [f"{measured[side]:.4f}" for side in ("head", "tail")]
        cells += [f"{PAPER[model][graph]:.4f}" if graph in PAPER.get(model, {}) else ""]
        cells += [str(OWN.get(model, {}).get(graph, "")), measured["selected_by"]]
        cells += [f"[{model}/{graph}](../src/kgprobe/configs/{model}/{graph}.toml)"]
        cells += [str(measured["seconds"]), measured["machine"], measured["date"]]
        print("| " + " | ".join(cells) + " |")


def _perspectives(run: Path) -> Iterator[list[str]]:
    result = json.loads((run / "result.json").read_text("utf-8"))
    for target, found in result["targets"].items():
        values = kp.evaluate(kp.read_ranks(run / found["ranks"]), TARGETS)
        epochs = ", ".join(str(checkpoint["epoch"]) for checkpoint in found["checkpoints"])
        yield [target, *(f"{values[name]:.4f}" for name in TARGETS), epochs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    training = commands.add_parser("train")
    training.add_argument("pairs", nargs="+", help="model:graph")
    training.add_argument("-o", "--output", type=Path, required=True)
    training.add_argument("--device", default="auto")
    training.add_argument("--threads", type=int)
    training.add_argument("--seeds", default="0,1,2")
    training.add_argument("--select", action="append", help="a metric; without any, the four perspectives")
    training.add_argument("--processes", type=int, default=1)
    training.set_defaults(command=train)
    showing = commands.add_parser("show")
    showing.add_argument("output", type=Path)
    showing.set_defaults(command=show)
    recording = commands.add_parser("record")
    recording.add_argument("outputs", type=Path, nargs="+")
    recording.add_argument("--note", default="", help="what else to say of the machine")
    recording.set_defaults(command=record)
    commands.add_parser("table").set_defaults(command=table)
    given = parser.parse_args()
    given.command(given)


if __name__ == "__main__":
    main()
