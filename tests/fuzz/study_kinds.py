"""Study files as inputs of the fuzzer."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from fuzz.inputs import Files, Kind, only_file
from kgprobe.studies.study_file import read_study

SMALL = """
title = "Mine"
graphs = ["umls", "wn18rr"]
seeds = [1, 2]
alphas = [1, 0.5, -1]
betas = [0, 0.8]
metrics = ["MRR"]
level = 0.9
[models.A]
ranks = "ranks/{graph}/a.parquet"
unavailable = {umls = "out of memory"}
[models.B]
train = "complex"
settings = {dimension = 8}
"""

CLAIMS = """
[[claims]]
name = "first"
kind = "place"
graph = "umls"
model = "A"
at = [{place = 2, alpha = 1}, {place = 1, metric = "MRR"}]
statement = "A is second, then first"
[[claims]]
kind = "order-changes"
graph = "wn18rr"
start = {alpha = 1, beta = 0}
end = {alpha = -1, beta = 0.8}
share = 0.2
[[claims]]
name = "third"
kind = "no-best"
alpha = "all"
beta = [0, 0.8]
"""


def study_files() -> list[Files]:
    whole = SMALL + CLAIMS
    short = 'graphs = ["mine"]\nmodels.A.model = "a.npz"\nmodels.B.model = "b.npz"\n'
    return [{"study.toml": text.encode()} for text in (whole, SMALL, short)]


def read_study_file(folder: Path) -> Any:
    study = read_study(only_file(folder))
    return {
        "title": study.title,
        "graphs": list(study.graphs),
        "seeds": list(study.seeds),
        "alphas": list(study.alphas),
        "betas": list(study.betas),
        "level": study.level,
        "models": {name: [one.train, one.model, one.ranks] for name, one in study.models.items()},
        "claims": [[claim.name, claim.kind, claim.statement] for claim in study.claims],
    }


def plain_study(folder: Path) -> Any:
    given = tomllib.loads(only_file(folder).read_text(encoding="utf-8-sig"))
    names = [one.get("name", f"claim {number}") for number, one in enumerate(given.get("claims", []), 1)]
    return {
        "title": given.get("title", "study"),
        "graphs": [Path(one).name for one in given["graphs"]],
        "seeds": given.get("seeds", [0, 1, 2]),
        "alphas": [float(one) for one in given.get("alphas", [1, 0.5, 0, -0.5, -1])],
        "betas": [float(one) for one in given.get("betas", [0, 0.2, 0.4, 0.6, 0.8])],
        "level": given.get("level", 0.95),
        "models": {
            name: [one.get(key) for key in ("train", "model", "ranks")] for name, one in given["models"].items()
        },
        "claims": [
            [name, one["kind"], one.get("statement", name)]
            for name, one in zip(names, given.get("claims", []), strict=True)
        ],
    }


KINDS = (Kind("study", study_files, read_study_file, plain_study),)
