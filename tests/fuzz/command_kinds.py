"""Texts of the command line, whole commands, and rank files through the commands that read them."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import combinations
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from fuzz.inputs import Files, Kind, only_file, require
from fuzz.plain import ENTITIES, RELATIONS, small_graph
from fuzz.rank_kinds import ROWS, plain_rank_file, rank_files
from kgprobe.aggregate.groups import ByQuantile, parse_groupings
from kgprobe.cli.console import parse_axis
from kgprobe.cli.main import main
from kgprobe.errors import DataError, UsageError
from kgprobe.metrics import parse, scores
from kgprobe.metrics.catalogue import METRICS
from kgprobe.models.rules.written_queries import Vocabulary
from kgprobe.ranks import Ranks
from kgprobe.resources import parse_memory
from kgprobe.train.setting_sources import from_command_line
from kgprobe.train.settings import resolve


def texts(*examples: str) -> list[Files]:
    return [{"argument.text": example.encode()} for example in examples]


def text_of(folder: Path) -> str:
    """The text of an input. The operating system hands over bytes that are not UTF-8 as lone surrogates."""
    return only_file(folder).read_bytes().decode("utf-8", "surrogateescape")


def read_metric(folder: Path) -> Any:
    metric = parse(text_of(folder))
    require(parse(str(metric)) == metric, "the name does not round-trip")
    return {"name": metric.name, **{name: value for name, value in metric.parameters.items() if value is not None}}


def plain_metric(folder: Path) -> Any:
    """The metric and its parameters: NAME, NAME@k or either with (name=value, ...)."""
    text = text_of(folder).strip()
    name, at, inside = re.fullmatch(r"([^@()=,]+)(?:@([^()]*))?(?:\(([^()]*)\))?", text).groups()  # type: ignore[union-attr]
    known = {_bare(alias): metric for metric in METRICS for alias in (metric.name, *metric.synonyms)}
    if _bare(name) not in known:
        name, at = re.fullmatch(r"(.*?)(\d+)_?", name.strip()).groups()  # type: ignore[union-attr]
    metric = known[_bare(name)]
    parameters = [field.name for field in fields(metric)]  # type: ignore[arg-type]
    found = {key: value for key, value in metric().parameters.items() if value is not None}
    if at is not None:
        found[parameters.pop(0)] = int(at)
    given = [part.strip() for part in (inside or "").split(",") if part.strip()]
    for i, part in enumerate(given):
        key, value = part.split("=") if "=" in part else (parameters[i], part)
        require(key.strip().lower() in parameters, f"no parameter {key}")
        found[key.strip().lower()] = float(value)
    return {"name": metric.name, **found}


def _bare(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


@cache
def _table() -> Ranks:
    popularity = {"entity_popularity": [0.25, 0.5, 0.1, 0.0, 1.0, 0.3], "relation_popularity": [0.5] * 6}
    labels = {"kind": ["é", "", None, "x", "x", "x"], "weight": [1.0, 2.0, 0.5, 0.0, 1.0, 1.0]}
    return Ranks.from_columns(**ROWS, **popularity, ties=[0] * 6, labels=labels)


def read_groups(folder: Path) -> Any:
    groupings = parse_groupings([text_of(folder)])
    found = scores(_table(), ["MRR"], by=[text_of(folder)])
    require(all(math.isfinite(score.value) for score in found), "a value is not finite")
    named = [[grouping.name, grouping.bands if isinstance(grouping, ByQuantile) else None] for grouping in groupings]
    return {"groupings": named, "queries": sum(score.queries for score in found)}


def plain_groups(folder: Path) -> Any:
    groupings: list[list[Any]] = []
    for part in filter(None, (part.strip() for part in text_of(folder).split(","))):
        name, colon, bands = part.partition(":")
        require(not colon or re.fullmatch(r"\d+", bands), "not a number of bands")
        groupings.append([name, int(bands) if colon else None])
    return {"groupings": groupings, "queries": 6}


def read_axis(folder: Path) -> Any:
    return parse_axis("alpha", text_of(folder))


def plain_axis(folder: Path) -> Any:
    """The numbers, or those from start to stop; in exact arithmetic."""
    text = text_of(folder)
    if ":" not in text:
        return [float(part) for part in text.split(",")]
    start, stop, step = (Fraction(float(part)) for part in text.split(":"))
    count = math.floor((stop - start) / step + Fraction(1, 10**9)) + 1
    require(1 <= count <= 10_000, "too many values, or none")
    return [round(float(start + i * step), 12) for i in range(count)]


def read_memory(folder: Path) -> Any:
    return parse_memory(text_of(folder))


def plain_memory(folder: Path) -> Any:
    number, unit = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text_of(folder).lower()).groups()  # type: ignore[union-attr]
    return int(float(Fraction(Decimal(number)) * 1024 ** " kmgt".index(unit or " ")))


def read_query(folder: Path) -> Any:
    query = Vocabulary(small_graph()).question(text_of(folder))
    return [query.side, query.given, query.relation]


def plain_query(folder: Path) -> Any:
    """The only reading of a text as head, relation and tail, one end of which is a question mark."""
    text = text_of(folder)
    between = "\t" if "\t" in text else ","
    pieces = text.split(between)
    readings = []
    for first, second in combinations(range(1, len(pieces)), 2):
        parts = pieces[:first], pieces[first:second], pieces[second:]
        head, relation, tail = (between.join(part).strip() for part in parts)
        for side, given, asked in (("tail", head, tail), ("head", tail, head)):
            ids = _id(given, ENTITIES), _id(relation, RELATIONS)
            if asked == "?" and given != "?" and None not in ids:
                readings.append([side, *ids])
    (reading,) = readings
    return reading


def _id(text: str, labels: Sequence[str]) -> int | None:
    if text in labels:
        return labels.index(text)
    digits = re.fullmatch(r"0*([0-9]{1,9})", text)
    return int(digits[1]) if digits and int(digits[1]) < len(labels) else None


def read_option(folder: Path) -> Any:
    key, sign, value = text_of(folder).partition("=")
    if not sign:
        raise UsageError("no value")
    return {key: getattr(resolve("distmult", [from_command_line({key: [value]})]).settings, key, None)}


def plain_option(folder: Path) -> Any:
    key, _, value = text_of(folder).partition("=")
    default = getattr(resolve("distmult", []).settings, key, None)
    kind = type(default)
    if default is None or kind is str:  # a setting of the model itself, or a choice
        return {key: value if kind is str else None}
    if kind is tuple:
        parts = [part.strip() for part in value.split(",")]
        return {key: [int(part) for part in parts] if key == "seeds" else [str(parse(part)) for part in [value]]}
    return {key: {"true": True, "false": False}[value.strip().lower()] if kind is bool else kind(value)}


def run_command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with (
        patch.object(sys, "argv", ["kgprobe", *arguments]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    require(code in (0, 1, 2), f"exit code {code}")
    require(code == 0 or err.getvalue().strip() or out.getvalue().strip(), f"exit code {code} without a message")
    require("Traceback" not in err.getvalue(), "a traceback on standard error")
    return code, out.getvalue(), err.getvalue()


def strict_json(text: str) -> Any:
    """JSON as the standard defines it: without NaN and Infinity."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


COMMANDS = (
    ["eval", "--metric", "MRR,Hits@10", "--metric", "PROBE(alpha=0.5,beta=0.4)", "--by", "relation,side"],
    ["eval", "--macro", "relation", "--tie", "pessimistic", "--weight", "weight", "--by", "popularity:2"],
    ["surface", "--alpha", "-1:1:0.5", "--beta", "0,0.4", "--eps-e", "0.1", "--at", "best"],
    ["check"],
    ["decide", "--alpha", "1", "--beta", "0.5", "--level", "0.9", "--replicates", "100", "--seed", "3"],
    ["compare", "--metric", "MRR", "--cluster", "query", "--replicates", "100", "--permutations", "100"],
    ["metrics"],
)


def commands() -> list[Files]:
    return [{"arguments.json": json.dumps([*command, "--format", "json"]).encode()} for command in COMMANDS]


def run_arguments(folder: Path) -> Any:
    """Run a command on a rank file; a failing command must say why, any other must print JSON."""
    try:
        given = json.loads(only_file(folder).read_bytes())
        arguments = [str(argument) for argument in given if not isinstance(argument, list | dict)]
    except (ValueError, RecursionError, TypeError):
        raise UsageError("arguments.json: no list of arguments") from None
    if not arguments or any(map(_is_elsewhere, arguments)):
        raise UsageError("arguments.json: no arguments")
    path = folder / "ranks.parquet"
    _table().write(path)
    code, out, err = run_command(*arguments, *([] if arguments[0] == "metrics" else [str(path)]))
    path.unlink()
    if code and not (code == 1 and arguments[0] == "check" and out):  # an audit with findings ends with 1
        raise UsageError(f"arguments.json: {err or out}")
    as_json = arguments[-2:] == ["--format", "json"] and not {"-f", "--format", "--"} & set(arguments[:-2])
    return {"rows": bool(strict_json(out)) if as_json else True}


def _is_elsewhere(argument: str) -> bool:
    """Whether an argument names a file to write, asks for help, or cannot be handed to a program at all."""
    return argument.startswith(("-h", "--h", "-o", "--o", "--v")) or "/" in argument or "\0" in argument


def plain_arguments(_folder: Path) -> Any:
    return {"rows": True}


METRIC_NAMES = ("MRR", "MR", "Hits@10")


def run_on_rank_file(folder: Path) -> Any:
    """Evaluate a rank file; check, compare and report some of them, which takes longer."""
    path = only_file(folder)
    random = Random(path.read_bytes())
    metrics = [word for name in METRIC_NAMES for word in ("--metric", name)]
    code, out, err = run_command("eval", str(path), *metrics, "--format", "json")
    if random.random() < 0.25:
        checked, findings, _ = run_command("check", str(path), "--format", "json")
        require(checked < 2 and isinstance(strict_json(findings), list), "the audit refuses its arguments")
        require(not code or checked == 1, "the audit finds nothing wrong in a file that cannot be evaluated")
    if code:
        raise DataError(err.removeprefix("Error: "))
    with TemporaryDirectory() as scratch:
        if random.random() < 0.15:
            copy = shutil.copy(path, Path(scratch) / "second.parquet")
            draws = ("--replicates", "100", "--permutations", "100")
            failed, compared, _ = run_command("compare", str(path), str(copy), "-m", "MRR", *draws, "-f", "json")
            require(failed or strict_json(compared), "no comparison")
        if random.random() < 0.02:
            page = Path(scratch) / "page.html"
            failed, _, _ = run_command("report", str(path), "--output", str(page), "--replicates", "100")
            require(page.exists() != bool(failed), "a page and a failure, or neither")
    return {row["metric"]: _value(row) for row in strict_json(out)}


def _value(row: dict[str, Any]) -> Any:
    if row["intervals"]:
        return "an interval"
    reason = any(value for key, value in row.items() if "reason" in key or "note" in key)
    require(row["value"] is not None or reason, f"{row['metric']} has no value and no reason")
    return row["value"]


def plain_metrics(folder: Path) -> Any:
    """The mean of a function of the rank over all queries of a seed, and then over the seeds."""
    columns = plain_rank_file(folder)["columns"]
    ranks, worst = columns["rank"], columns.get("worst_rank", columns["rank"])
    if any(w is not None and w > r for r, w in zip(ranks, worst, strict=True)):
        return dict.fromkeys(METRIC_NAMES, "an interval")
    seeds = columns.get("seed", [0] * len(ranks))
    values = dict(zip(METRIC_NAMES, (lambda r: 1 / r, lambda r: r, lambda r: float(r <= 10)), strict=True))
    answer = {}
    for name, value in values.items():
        by_seed = [[value(r) for r, s in zip(ranks, seeds, strict=True) if s == seed] for seed in set(seeds)]
        answer[name] = math.fsum(math.fsum(own) / len(own) for own in by_seed) / len(by_seed) if ranks else None
    return answer


KINDS = (
    Kind(
        "metric-name",
        lambda: texts(
            "MRR", "Hits@10", "PROBE(alpha=0.5,beta=0.4)", "p-MRR(2)", "StratHits@3(beta_e=1)", "hits_at_5", "AMRI"
        ),
        read_metric,
        plain_metric,
        named=False,
    ),
    Kind(
        "groups",
        lambda: texts("relation,side", "popularity:5", "rank:2", "kind", "candidates:3,side"),
        read_groups,
        plain_groups,
        named=False,
    ),
    Kind(
        "axis",
        lambda: texts("-1:1:0.5", "0, 0.4,1e3", "1:-1:-0.25", "0:0.8:0.2", "inf"),
        read_axis,
        plain_axis,
        named=False,
        tolerance=1e-9,
    ),
    Kind(
        "memory",
        lambda: texts("2 GB", "1.5g", "4096", "512MiB", "0.3kb"),
        read_memory,
        plain_memory,
        named=False,
        tolerance=1e-9,
    ),
    Kind(
        "query",
        lambda: texts("Ada, knows, ?", "?, likes, x y", "?\tknows\t007", "2, 1, ?"),
        read_query,
        plain_query,
        named=False,
    ),
    Kind(
        "option",
        lambda: texts(
            "epochs=5",
            "learning_rate=1e-3",
            "seeds=1,2",
            "select=MRR",
            "loss=cross_entropy",
            "subsampling=true",
            "dimension=8",
        ),
        read_option,
        plain_option,
        named=False,
    ),
    Kind("arguments", commands, run_arguments, plain_arguments, named=False),
    Kind("rank-file-commands", lambda: rank_files()[:-2], run_on_rank_file, plain_metrics, tolerance=1e-9),
)
