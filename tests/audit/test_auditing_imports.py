"""Imported files have the findings of the tables that they were written from, whatever the format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

import kgprobe as kp
from kgprobe.audit import check
from kgprobe.errors import DataError
from kgprobe.ranks import Basis, Ranks
from kgprobe.ranks.importers import import_ranks
from planting import exchanged, planted, shuffled, silent

QUERY = ("head", "relation", "tail", "side")


def columns_of(ranks: Ranks, *names: str) -> dict[str, Any]:
    return {name: ranks.column(name).combine_chunks() for name in names if name in ranks.column_names}


def write_csv(path: Path, columns: dict[str, Any], delimiter: str = ",") -> Path:
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = table.set_column(3, "side", table["side"].cast(pa.string()))
    arrow_csv.write_csv(table, path, arrow_csv.WriteOptions(delimiter=delimiter, quoting_style="none"))
    return path


def with_counts(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    return write_csv(folder / "odd.csv", columns_of(ranks, *QUERY, "rank", "ties", "candidates"))


def with_filtered(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    filtered = (graph.num_entities - ranks.candidates).astype(int)
    return write_csv(folder / "odd.csv", columns_of(ranks, *QUERY, "rank", "ties") | {"num_filtered": filtered})


def with_bounds(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    bounds = {"optimistic": ranks.rank - _ties(ranks) / 2, "pessimistic": ranks.rank + _ties(ranks) / 2}
    return write_csv(folder / "odd.csv", columns_of(ranks, *QUERY) | bounds | columns_of(ranks, "candidates"))


def with_labels(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    names = {
        "h": graph.entity_label(ranks.head.tolist()),
        "r": graph.relation_label(ranks.relation.tolist()),
        "t": graph.entity_label(ranks.tail.tolist()),
        "direction": np.where(ranks.predicts_tail, "rhs", "lhs"),
    }
    columns = {name: list(values) for name, values in names.items()}
    columns |= {name: values.to_pylist() for name, values in columns_of(ranks, "rank", "ties", "candidates").items()}
    rows = [columns.keys(), *zip(*columns.values(), strict=True)]
    (folder / "odd.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows), encoding="utf-8")
    return folder / "odd.tsv"


def as_parquet(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    pq.write_table(pa.table(columns_of(ranks, *QUERY, "rank", "ties", "candidates")), folder / "odd.parquet")
    return folder / "odd.parquet"


def as_probe_json(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> Path:
    filtered = (graph.num_entities - ranks.candidates).astype(int).tolist()
    rows = zip(ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail, ranks.rank, filtered, strict=True)
    entries = [[[int(h), int(r), int(t)], "t" if tail else "h", rank, 0.5, 0.5, n] for h, r, t, tail, rank, n in rows]
    (folder / "odd.json").write_text(json.dumps(entries), encoding="utf-8")
    return folder / "odd.json"


def _ties(ranks: Ranks) -> Any:
    return np.nan_to_num(ranks.ties)


IMPORTS: dict[str, Callable[[Ranks, kp.KnowledgeGraph, Path], Path]] = {
    "csv with candidates": with_counts,
    "csv with filtered": with_filtered,
    "csv with optimistic and pessimistic": with_bounds,
    "tsv with labels": with_labels,
    "parquet": as_parquet,
    "probe-json": as_probe_json,
}


def _filtered_by(name: str) -> Callable[[Ranks, kp.KnowledgeGraph], Ranks]:
    return lambda ranks, graph: planted(silent(kp.rank("relation-frequency", graph, filter=name)), ties=None)


def _counts(ranks: Ranks, counts: Any) -> Ranks:
    counts = np.minimum(np.maximum(counts, np.ceil(ranks.rank + _ties(ranks) / 2)), 135).astype(int)
    return planted(ranks, candidates=counts)


def _one_side(ranks: Ranks, graph: kp.KnowledgeGraph) -> Ranks:
    odd = silent(kp.rank("relation-frequency", graph, filter="train"))
    mixed = {c: np.where(ranks.predicts_tail, odd.numbers(c), ranks.numbers(c)) for c in ("rank", "candidates")}
    return planted(ranks, rank=mixed["rank"], candidates=mixed["candidates"].astype(int), ties=None)


def _swapped(ranks: Ranks) -> Ranks:
    return planted(ranks, head=ranks.tail, tail=ranks.head, side=np.where(ranks.predicts_tail, "head", "tail").tolist())


def _of_valid(ranks: Ranks, graph: kp.KnowledgeGraph) -> Ranks:
    return planted(silent(kp.rank("random", graph, split="valid")), ties=None)


def _off_by_one(ranks: Ranks) -> Ranks:
    return planted(ranks, rank=np.minimum(np.ceil(ranks.rank) + 1, ranks.candidates), ties=None)


DEFECTS: dict[str, tuple[str | None, Callable[[Ranks, kp.KnowledgeGraph], Ranks]]] = {
    "sound": (None, lambda ranks, graph: ranks),
    "unfiltered": ("candidates", _filtered_by("none")),
    "filtered by train": ("candidates", _filtered_by("train")),
    "filtered by train and valid": ("candidates", _filtered_by("train+valid")),
    "one candidate too many": ("candidates", lambda ranks, graph: _counts(ranks, ranks.candidates + 1)),
    "one candidate too few": ("candidates", lambda ranks, graph: _counts(ranks, ranks.candidates - 1)),
    "sampled candidates": (
        "candidates",
        lambda ranks, graph: planted(
            ranks, candidates=np.full(len(ranks), 51), rank=np.minimum(np.ceil(ranks.rank), 51), ties=None
        ),
    ),
    "one side filtered by train": ("candidates", _one_side),
    "some counts wrong": (
        "candidates",
        lambda ranks, graph: _counts(ranks, np.where(np.arange(len(ranks)) % 30 == 0, 134, ranks.candidates)),
    ),
    "queries missing": ("queries", lambda ranks, graph: ranks.filter(np.arange(len(ranks)) % 7 > 0)),
    "one side missing": ("sides", lambda ranks, graph: ranks.filter(ranks.predicts_tail)),
    "of the valid split": (
        "queries",
        lambda ranks, graph: planted(silent(kp.rank("random", graph, split="valid")), ties=None),
    ),
    "head and tail swapped": ("queries", lambda ranks, graph: _swapped(ranks)),
    "off by one": ("rank values", lambda ranks, graph: _off_by_one(ranks)),
    "constant scores": ("rank values", lambda ranks, graph: planted(ranks, rank=(1 + ranks.candidates) / 2, ties=None)),
    "last ranks": (
        "rank values",
        lambda ranks, graph: planted(
            ranks, rank=np.where(np.arange(len(ranks)) % 4, ranks.rank, ranks.candidates), ties=None
        ),
    ),
    "all at rank 1": ("rank values", lambda ranks, graph: planted(ranks, rank=np.ones(len(ranks)), ties=None)),
    "halves without ties": (
        "ties",
        lambda ranks, graph: planted(
            ranks, rank=np.where((np.arange(len(ranks)) % 9 > 0) | (ranks.candidates < 3), ranks.rank, 2.5), ties=None
        ),
    ),
    "thirds": (
        "ties",
        lambda ranks, graph: planted(ranks, rank=np.minimum(ranks.rank + 1 / 3, ranks.candidates), ties=None),
    ),
    "a side by chance": ("implausible", lambda ranks, graph: shuffled(ranks, ranks.predicts_tail)),
    "ranks of other queries": ("implausible", lambda ranks, graph: exchanged(ranks, ranks.rank > 0)),
}
"""The kind of finding that each defect has, and how it is planted."""


def told(files: dict[str, Any], graph: kp.KnowledgeGraph) -> list[tuple[Any, ...]]:
    found = [finding for finding in check(files, graph) if finding.kind != "unverifiable"]
    return [(finding.models, finding.kind, finding.severity, finding.rows, finding.message) for finding in found]


_QUICK = ("off by one", "thirds", "a side by chance")


@pytest.mark.parametrize(
    "defect", [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DEFECTS]
)
def test_every_defect_is_found_in_every_import(umls, on_umls, tmp_path: Path, defect: str) -> None:
    expected, plant = DEFECTS[defect]
    others = {name: on_umls[name] for name in ("RESCAL", "frequency")}
    tied = silent(on_umls["CP"])
    untied = plant(planted(tied, ties=None), umls).with_info(model="odd")
    direct = told({"odd": untied, **others}, umls)
    unclean = {kind for _, kind, severity, *_ in direct if severity != "note"}
    assert unclean >= {expected} if expected else not unclean
    for kind, write in IMPORTS.items():
        odd, same = untied, direct
        if write is with_bounds:
            odd = plant(tied, umls).with_info(model="odd")
            if "ties" not in odd.column_names:
                continue
            same = told({"odd": odd, **others}, umls)
        (tmp_path / kind).mkdir()
        if defect == "head and tail swapped":
            with pytest.raises(DataError, match="if head and tail are exchanged"):
                import_ranks(write(odd, umls, tmp_path / kind), graph=umls)
            continue
        import_ranks(write(odd, umls, tmp_path / kind), graph=umls, model="odd").write(tmp_path / f"{kind}.parquet")
        imported = kp.read_ranks(tmp_path / f"{kind}.parquet")
        assert imported.info.candidates.basis is Basis.recorded
        assert told({"odd": imported, **others}, umls) == same, kind


RULES = {
    "rank is below 1": {"rank": lambda ranks: ranks.rank - 1},
    "rank is larger than the number of candidates": {"rank": lambda ranks: np.full(len(ranks), 14.0)},
    "more candidates than the graph has entities": {"candidates": lambda ranks: np.full(len(ranks), 99)},
    "an entity id is outside the graph": {"head": lambda ranks: ranks.head + 14},
    "the same query": {"head": lambda ranks: ranks.head * 0, "tail": lambda ranks: ranks.head * 0},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", [kind for kind in IMPORTS if kind not in ("tsv with labels", "probe-json")])
def test_what_breaks_a_rule_is_not_imported(nations, on_nations, tmp_path: Path, kind: str, rule: str) -> None:
    ranks = planted(silent(on_nations["CP"]), ties=np.zeros(402, dtype=int))
    odd = planted(ranks, **{name: change(ranks) for name, change in RULES[rule].items()})
    with pytest.raises(DataError) as caught:
        import_ranks(IMPORTS[kind](odd, nations, tmp_path), graph=nations)
    assert any(problem.startswith(rule) for problem in caught.value.problems), caught.value.problems


def test_seeds_that_are_copies_are_found_in_imports(umls, on_umls, tmp_path: Path) -> None:
    paths = []
    for seed, name in ((1, "CP"), (2, "CP"), (3, "CP again")):
        (tmp_path / f"{seed}").mkdir()
        written = with_counts(silent(on_umls[name]), umls, tmp_path / f"{seed}")
        paths.append(written.rename(tmp_path / f"odd_{seed}.csv"))
    found = [finding for finding in check({"odd": import_ranks(paths, graph=umls)}, umls) if finding.unclean]
    assert [(finding.kind, "Seeds 1 and 2" in finding.message) for finding in found] == [("seeds", True)]


def without_counts(ranks: Ranks, folder: Path) -> Path:
    return write_csv(folder / "odd.csv", columns_of(ranks, *QUERY, "rank"))


def test_counts_that_were_assumed_are_told(nations, on_nations, tmp_path: Path) -> None:
    imported = import_ranks(without_counts(silent(on_nations["CP"]), tmp_path), graph=nations, model="odd")
    assert imported.info.candidates.basis is Basis.assumed
    assert imported.info.filter_hash is None
    for graph in (nations, None):
        (found,) = (finding for finding in check({"odd": imported}, graph) if finding.kind == "unverifiable")
        assert found.severity == "note"
        assert "entities minus known answers of train, valid, test" in found.message
        assert "not verified" in found.message


def test_unfiltered_ranks_that_were_said_to_be_so(nations, tmp_path: Path) -> None:
    raw = silent(kp.rank("relation-frequency", nations, filter="none"))
    imported = import_ranks(without_counts(raw, tmp_path), graph=nations, raw=True, model="odd")
    assert {finding.severity for finding in check({"odd": imported}, nations)} <= {"note", "warning"}
    told = [finding.message for finding in check({"odd": imported}, nations) if finding.kind == "candidates"]
    assert any(message.startswith("Unfiltered, as assumed at import") for message in told)
    mixed = check({"odd": imported, "usual": kp.rank("random", nations)}, nations)
    assert ("candidates", "error") in {(finding.kind, finding.severity) for finding in mixed if "odd" in finding.models}


def test_a_sound_import_is_comparable_with_ranks_of_kgprobe(umls, on_umls, tmp_path: Path) -> None:
    for write in (with_counts, as_probe_json):
        imported = import_ranks(write(silent(on_umls["CP"]), umls, tmp_path), graph=umls, model="odd", split="test")
        files = {"odd": imported, "RESCAL": on_umls["RESCAL"], "frequency": on_umls["frequency"]}
        for graph in (umls, None):
            assert [finding for finding in check(files, graph) if finding.unclean] == []
