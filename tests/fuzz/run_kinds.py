"""Settings files, checkpoints, training states, run directories and rule-based models."""

from __future__ import annotations

import json
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import torch

from fuzz.inputs import Files, Kind, OneOf, only_file, require, write
from fuzz.model_kinds import plain_arrays
from fuzz.plain import read_parquet, small_graph
from kgprobe.metrics import parse
from kgprobe.train.checkpoints import Checkpoint, State
from kgprobe.train.fitting import fit
from kgprobe.train.run_records import graph_metadata
from kgprobe.train.setting_sources import from_values
from kgprobe.train.settings import Settings, read_settings, resolve, settings_text
from kgprobe.train.trained_models import open_rules
from rule_trainings import QUICK

NOT_SETTINGS = ("graph_hash", "measured")


def _settings(model: str, **changes: Any) -> Settings:
    return resolve(model, [from_values("fuzz", changes)]).settings


def settings_files() -> list[Files]:
    """Whole files, as a run writes them, and short ones, as users write them."""
    whole = [
        settings_text(_settings("rotate", epochs=3, seeds=(1, 2))),
        settings_text(_settings("complex", select=("MRR", "PROBE(alpha=-1,beta=0.5)"), regulariser="n3")),
        settings_text(_settings("rnnlogic")),
    ]
    short = [
        'model = "transe"\nepochs = 1_0\nlearning_rate = 1\nseeds = 3\n\n[measured]\nMRR = 0.5\n',
        '# é\nmodel = "DistMult"\n"dimension" = 8 # small\nselect = "hits@10"\ngraph_hash = "0f"\n',
    ]
    return [{"settings.toml": text.encode()} for text in (*whole, *short)]


def read_settings_file(folder: Path) -> Any:
    return json.loads(json.dumps(read_settings(only_file(folder)).flat()))


def plain_settings(folder: Path) -> Any:
    return whole_settings(tomllib.loads(only_file(folder).read_text(encoding="utf-8-sig")))


def whole_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The given settings, and the defaults of all others."""
    values = {key: value for key, value in given.items() if key not in NOT_SETTINGS}
    expected: dict[str, Any] = json.loads(json.dumps(_settings(values.pop("model")).flat()))
    for key, value in values.items():
        default = expected[key]
        if isinstance(default, list):
            value = value if isinstance(value, list) else [value]
            value = [str(parse(name)) for name in value] if key == "select" else value
        plain = isinstance(default, float) and type(value) is int
        require(plain or type(value) is type(default), f"{key} has another type")
        expected[key] = list(dict.fromkeys(value)) if key == "select" else value
    return expected


def checkpoints() -> list[Files]:
    tensors = {
        "entity": torch.tensor([[[0.5, -1.0], [3e38, 1e-45]]]),
        "half": torch.tensor([0.1, -65504.0], dtype=torch.float16),
        "steps": torch.tensor(7),
        "none": torch.empty(0, 3),
    }
    graph = graph_metadata(small_graph())
    with TemporaryDirectory() as folder:
        path = Path(folder) / "seed-3.safetensors"
        Checkpoint(tensors, _settings("distmult"), graph, "MRR", 3, {"epoch": 5, "score": 0.25}).write(path)
        best = path.read_bytes()
        Checkpoint(tensors, _settings("rotate"), graph, "", 0, {"epoch": 1}).write(path)
        return [{"seed-3.safetensors": best}, {"a b.safetensors": path.read_bytes()}]


def states() -> list[Files]:
    return [{"state.safetensors": run_directories()[0]["state.safetensors"]}]


def read_checkpoint(folder: Path) -> Any:
    read = Checkpoint.read(only_file(folder))
    tensors = _defined({name: tensor.tolist() for name, tensor in read.tensors.items()})
    about = {name: _defined(getattr(read, name)) for name in ("seed", "target", "facts", "graph")}
    return {"tensors": tensors, **about}


def read_state(folder: Path) -> Any:
    read = State.read(only_file(folder))
    tensors = _defined({name: tensor.tolist() for name, tensor in read.tensors.items()})
    return {"tensors": tensors, "progress": _defined(read.progress), "logged": read.logged}


def _defined(tree: Any) -> Any:
    """Numbers with None in place of NaN, which a training that diverges may record."""
    return json.loads(json.dumps(tree), parse_constant=lambda name: None if name == "NaN" else float(name))


def plain_tensors(path: Path, kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tensors and the metadata of a file of a run.

    The hash of the file must hold; in files of earlier versions, the checksum of the names and bytes of the tensors.
    """
    arrays, text = plain_arrays(path)
    about = json.loads(text or "")
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name][1]).tobytes(), zlib.crc32(name.encode(), checksum))
    require("sha256" in about or about["checksum"] == checksum, "a wrong checksum")
    require(about["kind"] == kind, "another kind of file")
    return _defined({name: array.tolist() for name, (_, array) in arrays.items()}), about


def plain_checkpoint(folder: Path) -> Any:
    tensors, about = plain_tensors(only_file(folder), "checkpoint")
    require(type(about["seed"]) is int and isinstance(about["target"], str), "a seed or target of another type")
    require(isinstance(about["facts"], dict) and isinstance(about["graph"], dict), "metadata of another type")
    return {"tensors": tensors} | {name: _defined(about[name]) for name in ("seed", "target", "facts", "graph")}


def plain_state(folder: Path) -> Any:
    tensors, about = plain_tensors(only_file(folder), "state of a run")
    require(isinstance(about["progress"], dict) and type(about["logged"]) is int, "metadata of another type")
    return {"tensors": tensors, "progress": _defined(about["progress"]), "logged": about["logged"]}


_RUN = {"dimension": 2, "epochs": 2, "validate_every": 1, "select": ["MRR"], "batch_size": 8, "learning_rate": 0.1}


def _fit(model: str, folder: Path, settings: dict[str, Any]) -> None:
    """Train a model into a folder; without times and sizes, which would make every run of the fuzzer another one."""
    memory = patch("kgprobe.train.fitting.peak_memory", return_value={"host": 1})
    with patch("time.monotonic", return_value=0.0), memory:
        fit(model, small_graph(), folder, threads=1, **settings)


@cache
def run_directories() -> list[Files]:
    """A run that is finished, and the same before its ranks were written."""
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        _fit("distmult", run, _RUN)
        files = {str(path.relative_to(run)): path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    del files[".lock"]
    return [files, {name: content for name, content in files.items() if name not in ("result.json", "ranks.parquet")}]


def resume_run(folder: Path) -> Any:
    fitted = fit("distmult", small_graph(), folder, resume=True, threads=1)
    return {target: ranks.rank.tolist() for target, ranks in fitted.ranks.items()}


@cache
def _untouched() -> tuple[list[float], dict[str, Any]]:
    """The ranks and the weights of the run."""
    with TemporaryDirectory() as folder:
        write(run_directories()[0], Path(folder) / "run")
        ranks = read_parquet(Path(folder) / "run" / "ranks.parquet").column("rank").to_pylist()
        return ranks, plain_tensors(Path(folder) / "run" / _BEST, "checkpoint")[0]


_BEST = "best/mrr/seed-0.safetensors"


def plain_run(folder: Path) -> Any:
    """The ranks of the untouched run, or those of its rank file if that is another valid one."""
    settings = tomllib.loads((folder / "settings.toml").read_text(encoding="utf-8-sig"))
    ranks, weights = _untouched()
    if (folder / _BEST).exists():
        tensors, about = plain_tensors(folder / _BEST, "checkpoint")
        same = whole_settings(about["settings"]) == whole_settings(settings)
        require(same, "settings that are not those of the checkpoint")
        if tensors != weights:  # other weights, with a hash that is right again, have other ranks
            return {"MRR": OneOf([])}
    if (folder / "result.json").exists():
        require(isinstance(json.loads((folder / "result.json").read_bytes()), dict), "no result")
    try:
        found: Sequence[float] = read_parquet(folder / "ranks.parquet").column("rank").to_pylist()
    except (OSError, KeyError, ValueError, pa.ArrowException):  # the ranks are computed again
        found = ranks
    return {"MRR": OneOf([ranks, found])}


@cache
def rule_models() -> list[Files]:
    """A checkpoint of a rule-based model."""
    quick = QUICK["rnnlogic"] | {"epochs": 2, "validate_every": 1, "select": ["MRR"]}
    with TemporaryDirectory() as folder:
        _fit("rnnlogic", Path(folder) / "run", quick)
        path = Path(folder) / "run" / "best" / "mrr" / "seed-0.safetensors"
        return [{"rules.safetensors": path.read_bytes()}]


_RULES = ("head", "body", "support", "pairs", "path_support", "paths")


def read_rules(folder: Path) -> Any:
    rules = open_rules(only_file(folder), small_graph()).scorer.rules
    return {name: getattr(rules, name).tolist() for name in _RULES}


def plain_rules(folder: Path) -> Any:
    tensors, about = plain_tensors(only_file(folder), "checkpoint")
    require(about["settings"]["model"] == "RNNLogic", "a model without rules")
    relations = 2 * small_graph().num_relations
    require(all(0 <= head < relations for head in tensors["rules.head"]), "the head of a rule")
    require(all(-1 <= atom < relations for body in tensors["rules.body"] for atom in body), "the body of a rule")
    return {name: tensors[f"rules.{name}"] for name in _RULES}


KINDS = (
    Kind("settings", settings_files, read_settings_file, plain_settings),
    Kind("checkpoint", checkpoints, read_checkpoint, plain_checkpoint),
    Kind("training-state", states, read_state, plain_state),
    Kind("run-directory", run_directories, resume_run, plain_run),
    Kind("rule-model", rule_models, read_rules, plain_rules),
)
