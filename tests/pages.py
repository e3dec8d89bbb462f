"""What a page computes, asked of its own scripts without a browser."""

from __future__ import annotations

import base64
import json
import math
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.ranks import Ranks
from kgprobe.report.page.page_file import computing_script
from kgprobe.report.page.payload import About, payload

_ASK = """
import {{ readFileSync }} from "node:fs";
import * as page from "./page.mjs";
const data = await page.openData(readFileSync({data}, "utf8"));
const answer = (({{ {names} }}) => {{ {body} }})(page);
const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
process.stdout.write(JSON.stringify(answer, plain));
"""

_NAMES = (
    "scores, differences, surface, histogram, breakdown, query, queryCount, reasonsAt, sortQueries, selected, "
    "rankMetrics, bestFirst"
)


def ask(folder: Path, packed: bytes, body: str) -> Any:
    """The value that JavaScript code returns, which may use all functions of the page and ``data``."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node, which runs the page's scripts without a browser, is not installed")
    (folder / "page.mjs").write_text(computing_script(), encoding="utf-8")
    (folder / "data.txt").write_text(base64.b64encode(packed).decode("ascii"), encoding="utf-8")
    program = _ASK.format(data=json.dumps(str(folder / "data.txt")), names=_NAMES, body=body)
    (folder / "ask.mjs").write_text(program, encoding="utf-8")
    done = subprocess.run(
        [node, str(folder / "ask.mjs")], capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def ask_lineup(folder: Path, lineup: Lineup, body: str, about: About | None = None) -> Any:
    """The same for the page of a line-up."""
    return ask(folder, payload(lineup, about or About()).packed, body)


def made_up(
    rows: int = 60,
    *,
    models: int = 3,
    seeds: Sequence[int] = (1,),
    single: int = 0,
    popularity: bool = True,
    entities: int = 6,
    other_candidates: bool = False,
    seed: int = 0,
) -> dict[str, Ranks]:
    """Models on the same queries, both sides of most triples among them.

    Args:
        rows: The number of queries of a run.
        models: How many models.
        seeds: How many training runs each has, in turn.
        single: How many queries have a single candidate.
        popularity: Whether it is recorded.
        entities: How many there are: few of them make popularity uneven.
        other_candidates: Whether the last model has other candidate counts.
        seed: Makes it repeatable.
    """
    rng = np.random.default_rng(seed)
    triple = np.arange(rows) // 2
    head, relation, tail = triple, triple % 3, rng.integers(0, entities, rows)[triple]
    side = np.where(np.arange(rows) % 2 == 0, "head", "tail")
    candidates = rng.integers(2, 400, rows)
    candidates[rng.permutation(rows)[:single]] = 1
    shown = {
        "entity_popularity": rng.choice([0, 0.001, 0.02, 0.3], rows),
        "relation_popularity": rng.choice([0, 0.1, 0.4, 1.0], rows),
    }
    difficulty = rng.random(rows)
    tables = {}
    for model in range(models):
        own = candidates + (candidates > 1) * (other_candidates and model == models - 1)
        runs = seeds[model % len(seeds)]
        share = (difficulty[None] + rng.random((runs, rows))) / 2
        rank = 1 + np.floor((own - 1) * share**3) + np.where(rng.random((runs, rows)) < 0.1, 0.5, 0)
        tables[f"model {model}"] = Ranks.from_columns(
            head=np.tile(head, runs),
            relation=np.tile(relation, runs),
            tail=np.tile(tail, runs),
            side=np.tile(side, runs),
            rank=np.minimum(rank, own).ravel(),
            candidates=np.tile(own, runs),
            **({name: np.tile(values, runs) for name, values in shown.items()} if popularity else {}),
            **({"seed": np.repeat(np.arange(runs), rows)} if runs > 1 else {}),
        )
    return tables


def lined_up(**choices: Any) -> Lineup:
    """A line-up of `made_up` models."""
    return line_up(made_up(**choices))


CASES: dict[str, dict[str, Any]] = {
    "one seed": {},
    "seeds": {"seeds": (3, 4, 2)},
    "some seeds": {"seeds": (3, 1, 2)},
    "single candidates": {"single": 7, "seeds": (2, 1)},
    "other candidates": {"other_candidates": True, "single": 3},
    "one model": {"models": 1},
    "odd number of queries": {"rows": 61},
}


class Plain:
    """One model of a line-up at one point: scores, weights and pulls, query by query."""

    def __init__(self, lineup: Lineup, model: str, alpha: float, beta: float, kept: Any = None) -> None:
        runs = lineup.runs[model]
        triples = list(zip(lineup.first.head, lineup.first.relation, lineup.first.tail, strict=True))
        self.values, self.effective, self.weight = [], [], []
        self.pulls: dict[Any, float] = defaultdict(float)
        self.run_pulls: list[dict[Any, float]] = []
        for run in runs:
            weight = self._weights(run, runs, beta)
            inside = [w if kept is None or kept[q] else 0.0 for q, w in enumerate(weight)]
            score = kp.transform.AffinePower(alpha)(run.rank, run.candidates)
            counted = [q for q, w in enumerate(inside) if w > 0]
            total = sum(inside)
            value = sum(inside[q] * score[q] for q in counted) / total
            self.values.append(value)
            self.weight.append(total / sum(weight))
            self.effective.append(total**2 / sum(w**2 for w in inside))
            self.run_pulls.append(defaultdict(float))
            for q in counted:
                self.run_pulls[-1][triples[q]] += inside[q] * (score[q] - value) / total
                self.pulls[triples[q]] += inside[q] * (score[q] - value) / total / len(runs)

    @staticmethod
    def _weights(run: kp.Ranks, runs: tuple[kp.Ranks, ...], beta: float) -> list[float]:
        weight = np.where(run.candidates > 1, 1.0, 0.0)
        for column in ("entity_popularity", "relation_popularity"):
            known = [v for one in runs for v, e in zip(one.numbers(column), one.candidates, strict=True) if e > 1]
            weight *= (run.numbers(column) + min(v for v in known if v > 0)) ** -beta
        return [float(w) for w in weight]

    @property
    def value(self) -> float:
        return float(np.mean(self.values))

    @property
    def seed_variance(self) -> float:
        return float(np.var(self.values, ddof=1)) / len(self.values) if len(self.values) > 1 else 0.0


def variance_of(pulls: Sequence[float]) -> float:
    """Of a value at which clusters pull."""
    return len(pulls) / (len(pulls) - 1) * sum(pull**2 for pull in pulls)


def plain_interval(own: Plain, level: float = 0.95, *, random_seeds: bool = True) -> tuple[float, float]:
    """The interval of a score."""
    pulls = list(own.pulls.values())
    variance, runs = variance_of(pulls), len(own.values)
    if not random_seeds:
        half = stats.norm.ppf((1 + level) / 2) * math.sqrt(variance)
        return own.value - half, own.value + half
    freedom = 2 / (sum(pull**4 for pull in pulls) / sum(pull**2 for pull in pulls) ** 2 - 1 / len(pulls))
    apart = [variance_of([run[triple] - pull for triple, pull in own.pulls.items()]) for run in own.run_pulls]
    twice = sum(apart) / (runs * (runs - 1))
    total, uncertain = variance, variance**2 / freedom
    if own.seed_variance > twice:
        total += own.seed_variance - twice
        uncertain += own.seed_variance**2 / (runs - 1) + twice**2 / (runs - 1) / freedom
    half = max(
        stats.t.ppf((1 + level) / 2, total**2 / uncertain) * math.sqrt(total),
        stats.t.ppf((1 + level) / 2, runs - 1) * math.sqrt(own.seed_variance),
    )
    return own.value - half, own.value + half


def plain_band(own: Plain, other: Plain, width: float, *, random_seeds: bool = True) -> tuple[float, float]:
    """The band of a difference, so many standard errors wide where these are known well."""
    value = own.value - other.value
    triples = {*own.pulls, *other.pulls}
    total = variance_of([own.pulls[triple] - other.pulls[triple] for triple in triples])
    if random_seeds:
        total += own.seed_variance + other.seed_variance
        degrees = min(len(own.values), len(other.values)) - 1
        freedom = total**2 * degrees / (own.seed_variance**2 + other.seed_variance**2)
        width = stats.t.isf(stats.norm.sf(width), freedom)
    return value - width * math.sqrt(total), value + width * math.sqrt(total)
