"""Planted import mistakes are diagnosed with the option that makes the file right; sound files are not diagnosed."""

import csv
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pytest

import kgprobe as kp
from kgprobe.errors import DataError
from kgprobe.ranks import Assumption, Ranks, Verification
from kgprobe.ranks.importers import import_ranks
from kgprobe.ranks.importers.diagnosis import OF_TRIPLES, OF_VALUES

pandas = pytest.importorskip("pandas")

QUERY = ["head", "relation", "tail", "side"]


def frame_of(ranks: Ranks, *names: str) -> Any:
    """The columns of a rank table as another program would hold them."""
    table = ranks.to_arrow().select([*QUERY, *names])
    return table.set_column(3, "side", table["side"].cast(pa.string())).to_pandas()


def ordered(ranks: Ranks, name: str = "rank") -> Any:
    """A column in the order of the queries."""
    seed = np.zeros(len(ranks)) if ranks.seed is None else ranks.seed
    return ranks.numbers(name)[
        np.lexsort((seed, ranks.predicts_tail.astype(int), ranks.tail, ranks.relation, ranks.head))
    ]


@pytest.fixture(scope="module")
def umls(data: Path) -> kp.KnowledgeGraph:
    return kp.load_graph(data / "graphs/umls")


@pytest.fixture(scope="module")
def tied(umls: kp.KnowledgeGraph) -> Ranks:
    """Ranks with many ties."""
    return kp.rank("relation-frequency", umls)


@pytest.fixture(scope="module")
def unfiltered(umls: kp.KnowledgeGraph) -> Ranks:
    return kp.rank("relation-frequency", umls, filter="none")


@dataclass(frozen=True)
class Mistake:
    """A mistake, what is said about it, and what then makes the import right.

    Attributes:
        plant: The file, made from sound ranks.
        said: Part of what the error must say.
        options: Arguments of the import that fails.
        cure: Further arguments under which the import gives the sound ranks; None if the file must be changed.
        columns: Columns of the sound file beside query and rank.
    """

    plant: Callable[[Any, kp.KnowledgeGraph], Any]
    said: str
    options: dict[str, Any] = field(default_factory=dict)
    cure: dict[str, Any] | None = None
    columns: tuple[str, ...] = ()


def changed(**columns: Callable[[Any], Any]) -> Callable[[Any, kp.KnowledgeGraph], Any]:
    return lambda frame, graph: frame.assign(**columns)


def renamed(**names: str) -> Callable[[Any, kp.KnowledgeGraph], Any]:
    return lambda frame, graph: frame.rename(columns=names)


def inverse(frame: Any, graph: kp.KnowledgeGraph) -> Any:
    """Head queries (?, r, t) as (t, r + number of relations, ?), without a column of sides."""
    head = frame["side"] == "head"
    return frame.assign(
        head=frame["tail"].where(head, frame["head"]),
        relation=frame["relation"] + graph.num_relations * head,
        tail=frame["head"].where(head, frame["tail"]),
        side="tail",
    )


def runs(frame: Any, graph: kp.KnowledgeGraph) -> Any:
    return pandas.concat([frame.assign(run=1), frame.assign(run=2)])


SWAP = {"head": "tail", "tail": "head"}
MISTAKES = {
    "ranks from 0": Mistake(
        changed(rank=lambda f: f["rank"] - 1), "if they count from 0: `zero_based=True`", cure={"zero_based": True}
    ),
    "optimistic ranks": Mistake(
        changed(rank=lambda f: f["rank"] - f["ties"] / 2),
        "if they are optimistic, with ties: `tie='optimistic'`",
        cure={"tie": "optimistic"},
        columns=("ties",),
    ),
    "pessimistic ranks": Mistake(
        changed(rank=lambda f: f["rank"] + f["ties"] / 2),
        "if they are pessimistic, with ties: `tie='pessimistic'`",
        cure={"tie": "pessimistic"},
        columns=("ties",),
    ),
    "exchanged bounds": Mistake(
        lambda f, g: f.assign(best=f["rank"] + f["ties"] / 2, worst=f["rank"] - f["ties"] / 2).drop(
            columns=["rank", "ties"]
        ),
        "if the optimistic and pessimistic ones are exchanged: name them with `columns`",
        {"columns": {"optimistic": "best", "pessimistic": "worst"}},
        {"columns": {"optimistic": "worst", "pessimistic": "best"}},
        ("ties",),
    ),
    "head and tail swapped": Mistake(
        renamed(**SWAP),
        "if head and tail are exchanged: `columns` head=tail, `columns` tail=head",
        cure={"columns": SWAP},
    ),
    "head, tail, relation": Mistake(
        renamed(relation="tail", tail="relation"),
        "if the columns of the triples are exchanged: `columns` relation=tail, `columns` tail=relation",
        cure={"columns": {"relation": "tail", "tail": "relation"}},
    ),
    "inverse relations": Mistake(inverse, "`inverse_relations=True`", cure={"inverse_relations": True}),
    "ids from 1": Mistake(
        changed(head=lambda f: f["head"] + 1, relation=lambda f: f["relation"] + 1, tail=lambda f: f["tail"] + 1),
        "if the ids of entities and relations are off by one: subtract 1",
    ),
    "ids said to be labels": Mistake(
        changed(), "if they are ids: leave out `labels=True`", {"labels": True}, {"labels": False}
    ),
    "another split": Mistake(changed(), "`split='test'`?", {"split": "valid"}, {"split": "test"}),
    "two runs": Mistake(runs, "'run' tells the repeated queries apart", cure={"columns": {"seed": "run"}}),
    "candidates are the filtered entities": Mistake(
        lambda f, g: f.assign(candidates=g.num_entities - f["candidates"]),
        "if the column of candidates holds the number of filtered entities",
        cure={"columns": {"filtered": "candidates"}},
        columns=("candidates",),
    ),
    "the target is not counted": Mistake(
        changed(candidates=lambda f: f["candidates"] - 1),
        "if the candidate counts leave out the target: add 1",
        columns=("candidates",),
    ),
    "reciprocal ranks": Mistake(changed(rank=lambda f: 1 / f["rank"]), "all values are 1/rank"),
    "ranks as fractions": Mistake(
        changed(rank=lambda f: (f["rank"] / f["candidates"]).round(7)),
        "as fractions: multiply them by it",
        columns=("candidates",),
    ),
    "ranks in percent": Mistake(
        changed(rank=lambda f: 100 * f["rank"] / f["candidates"]),
        "as percentages: multiply them by it and divide by 100",
        columns=("candidates",),
    ),
    "scores": Mistake(
        changed(rank=lambda f: np.random.default_rng(0).random(len(f))),
        "look like scores: name the column of the ranks",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_diagnosed_and_cured(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path, name: str) -> None:
    mistake = MISTAKES[name]
    sound = frame_of(tied, "rank", *mistake.columns)
    path = tmp_path / "ranks.csv"
    mistake.plant(sound, umls).to_csv(path, index=False)
    with pytest.raises(DataError) as caught:
        import_ranks(path, graph=umls, **mistake.options)
    assert mistake.said in caught.value.remedy
    assert caught.value.problems
    others = [other.said for other in MISTAKES.values() if other.said != mistake.said]
    assert not [said for said in others if said in caught.value.remedy]
    if mistake.cure is not None:
        cured = import_ranks(path, graph=umls, **mistake.options | mistake.cure)
        expected = ordered(tied)
        assert ordered(cured).tolist() == (expected.repeat(2) if name == "two runs" else expected).tolist()
        if "ties" in mistake.columns:
            assert ordered(cured, "ties").tolist() == ordered(tied, "ties").tolist()
        assert Verification.in_graph in cured.info.imported.verified


def test_every_diagnosis_has_a_planted_mistake() -> None:
    assert len(MISTAKES) >= 10
    # Unfiltered ranks and labels that look like ids have tests of their own; the last two share one diagnosis.
    assert len(OF_VALUES) + len(OF_TRIPLES) == 15


def test_labels_that_are_read_as_labels_are_not_doubted(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["head", "relation", "tail", "side", "rank"])
        for row in tied.to_rows():
            head, tail = umls.entity_label([row["head"], row["tail"]])
            rows.writerow([head, *umls.relation_label([row["relation"]]), tail, row["side"], row["rank"] - 1])
    with pytest.raises(DataError) as refused:
        kp.import_ranks(path, graph=umls)
    assert "`zero_based=True`" in str(refused.value)
    assert "`labels=True`" not in str(refused.value)


def test_unfiltered_ranks_are_diagnosed(umls: kp.KnowledgeGraph, unfiltered: Ranks, tmp_path: Path) -> None:
    frame_of(unfiltered, "rank").to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError, match="unfiltered ranks") as caught:
        import_ranks(tmp_path / "ranks.csv", graph=umls)
    assert "`raw=True`" in caught.value.remedy
    cured = import_ranks(tmp_path / "ranks.csv", graph=umls, raw=True)
    assert ordered(cured).tolist() == ordered(unfiltered).tolist()
    assert Assumption.unfiltered in cured.info.imported.assumed


def test_labels_that_look_like_ids_are_diagnosed(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path) -> None:
    """The labels of the entities are numbers, in another order than the ids."""
    labels = np.random.default_rng(1).permutation(umls.num_entities)
    graph = kp.KnowledgeGraph.from_triples(
        **{split: umls.triples(split) for split in umls.splits},
        entity_labels=[str(label) for label in labels],
        relation_labels=[str(label) for label in range(umls.num_relations)],
    )
    frame = frame_of(tied, "rank")
    frame.assign(head=labels[frame["head"]], tail=labels[frame["tail"]]).to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError, match="if they are labels") as caught:
        import_ranks(tmp_path / "ranks.csv", graph=graph)
    assert "`labels=True`" in caught.value.remedy
    assert ordered(import_ranks(tmp_path / "ranks.csv", graph=graph, labels=True)).tolist() == ordered(tied).tolist()


def test_optimistic_ranks_that_break_no_rule_are_noted(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path) -> None:
    frame = frame_of(tied, "rank", "ties", "candidates")
    some = frame[(frame["rank"] - frame["ties"] / 2 > 1 + frame["ties"])].assign(
        rank=lambda f: f["rank"] - f["ties"] / 2
    )
    some.to_csv(tmp_path / "ranks.csv", index=False)
    notes = import_ranks(tmp_path / "ranks.csv", graph=umls).info.imported.notes
    assert any("`tie='optimistic'`" in note for note in notes)
    converted = import_ranks(tmp_path / "ranks.csv", graph=umls, tie="optimistic").info.imported
    assert not any("tie=" in note for note in converted.notes)
    assert converted.assumed == (Assumption.optimistic_ranks,)


def test_the_command_names_its_options(data: Path, tied: Ranks, tmp_path: Path) -> None:
    frame = frame_of(tied, "rank", "ties")
    frame.assign(rank=frame["rank"] - frame["ties"] / 2).to_csv(tmp_path / "best.csv", index=False)
    command = [sys.executable, "-m", "kgprobe", "import", "auto", str(tmp_path / "best.csv")]
    command += ["--graph", str(data / "graphs/umls"), "-o", str(tmp_path / "r.parquet")]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert ": --optimistic;" in refused.stderr
    subprocess.run([*command, "--optimistic"], capture_output=True, text=True, check=True)
    assert ordered(kp.read_ranks(tmp_path / "r.parquet")).tolist() == ordered(tied).tolist()


def test_swapped_columns_are_named_as_in_the_file(umls: kp.KnowledgeGraph, unfiltered: Ranks, tmp_path: Path) -> None:
    """Ranks above the counts of triples that the graph does not have say nothing about the filter."""
    names = {"head": "Object", "relation": "p", "tail": "Subject"}
    frame_of(unfiltered, "rank").rename(columns=names).to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError) as caught:
        import_ranks(tmp_path / "ranks.csv", graph=umls)
    assert "`columns` head=Object, `columns` tail=Subject" in caught.value.remedy
    assert "raw" not in caught.value.remedy


def test_ids_of_another_graph_are_told(data: Path, tied: Ranks, tmp_path: Path) -> None:
    frame_of(tied, "rank").to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError, match="outside the graph") as caught:
        import_ranks(tmp_path / "ranks.csv", graph=data / "graphs/kinship")
    assert caught.value.remedy.startswith("give the `graph` that was ranked, if it is not kinship; ")
    few = "head,relation,tail,side,rank\n5,2,5,tail,1\n5,2,5,head,1\n0,0,0,tail,1\n"
    (tmp_path / "few.csv").write_text(few)
    imported = import_ranks(tmp_path / "few.csv", graph=data / "graphs/umls").info.imported
    assert "0 of 2 triples are in test, 2 in no split of umls" in imported.notes
    assert Verification.in_graph not in imported.verified


def test_a_file_with_two_mistakes_has_two_diagnoses(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path) -> None:
    frame = runs(frame_of(tied, "rank"), umls).assign(rank=lambda f: f["rank"] - 1)
    frame.to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError) as caught:
        import_ranks(tmp_path / "ranks.csv", graph=umls)
    assert "`zero_based=True`" in caught.value.remedy
    assert "'run' tells" in caught.value.remedy


def test_a_single_bad_row_is_not_diagnosed(umls: kp.KnowledgeGraph, tied: Ranks, tmp_path: Path) -> None:
    """One rank of 0 among ranks that reach the number of candidates: no reading makes all rows right."""
    frame = frame_of(tied, "rank", "candidates")
    frame.loc[0, "rank"], frame.loc[1, "rank"] = 0, frame.loc[1, "candidates"]
    frame.to_csv(tmp_path / "ranks.csv", index=False)
    with pytest.raises(DataError) as caught:
        import_ranks(tmp_path / "ranks.csv", graph=umls)
    assert caught.value.remedy == (
        "rows count from 1, without the header; correct the file, or name its columns with `columns`"
    )


def wide(frame: Any) -> Any:
    """One row per triple (and run), with the ranks of both sides."""
    keys = [name for name in ("seed", "head", "relation", "tail") if name in frame]
    sides = [
        frame[frame["side"] == side].drop(columns="side").rename(columns={"rank": f"{side}_rank"})
        for side in ("head", "tail")
    ]
    heads, tails = (
        side.rename(columns={"candidates": f"n_candidates_{name}"}) for side, name in zip(sides, "ht", strict=True)
    )
    return heads.merge(tails, on=keys)


def arrow_tsv(frame: Any, path: Path) -> None:
    arrow_csv.write_csv(pa.Table.from_pandas(frame), path, arrow_csv.WriteOptions(delimiter="\t"))


WRITERS: dict[str, Callable[[Any, Path], Any]] = {
    "a.csv": lambda frame, path: frame.to_csv(path, index=False),
    "index.csv": lambda frame, path: frame.to_csv(path),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, sep=";", decimal=",", index=False),
    "quoted.tsv": lambda frame, path: frame.to_csv(path, sep="\t", index=False, quoting=2),
    "arrow.tsv": arrow_tsv,
    "a.txt": lambda frame, path: frame.to_csv(path, sep="\t", index=False),
    "records.json": lambda frame, path: frame.to_json(path, orient="records"),
    "columns.json": lambda frame, path: frame.to_json(path),
    "index.json": lambda frame, path: frame.to_json(path, orient="index"),
    "split.json": lambda frame, path: frame.to_json(path, orient="split"),
    "table.json": lambda frame, path: frame.to_json(path, orient="table", index=False),
    "lines.jsonl": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "lines.json": lambda frame, path: frame.to_json(path, orient="records", lines=True),
    "a.parquet": lambda frame, path: pq.write_table(pa.Table.from_pandas(frame), path),
    "wide.csv": lambda frame, path: wide(frame).to_csv(path, index=False),
    "wide.json": lambda frame, path: wide(frame).to_json(path),
}


def import_soundly(ranks: Ranks, graph: kp.KnowledgeGraph, folder: Path) -> None:
    """Import ranks in every format, with and without the candidate counts: the same ranks, and no doubt about them."""
    names = [name for name in ("seed", "rank", "candidates") if name in ranks.column_names]
    frame = frame_of(ranks, *names)
    rank, candidates = ordered(ranks).tolist(), ordered(ranks, "candidates").tolist()
    for name, write in WRITERS.items():
        write(frame, folder / name)
        imported = import_ranks(folder / name, graph=graph, split="test")
        assert (ordered(imported).tolist(), ordered(imported, "candidates").tolist()) == (rank, candidates), name
        assert {Verification.in_graph, Verification.in_split} <= set(imported.info.imported.verified)
        assert not any("tie=" in note or "triples" in note for note in imported.info.imported.notes)
    frame.drop(columns="candidates").to_csv(folder / "a.csv", index=False)
    assert ordered(import_ranks(folder / "a.csv", graph=graph)).tolist() == rank


MODELS = ("RotatE", "HousE", "ComplEx", "TuckER", "RNNLogic", "pLogicNet")


@pytest.mark.parametrize("model", MODELS)
def test_no_sound_file_is_diagnosed(data: Path, umls: kp.KnowledgeGraph, tmp_path: Path, model: str) -> None:
    ranks = kp.read_ranks(data / "published_ranks" / "umls" / f"{model}.parquet")
    first = ranks.filter(ranks.seed == 1)
    import_soundly(first.filter(np.arange(len(first)) // 2 % 4 == 0), umls, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["umls", "wn18rr"])
@pytest.mark.parametrize("model", MODELS)
def test_no_published_file_is_diagnosed(data: Path, tmp_path: Path, name: str, model: str) -> None:
    graph = kp.load_graph(data / "graphs" / name)
    import_soundly(kp.read_ranks(data / "published_ranks" / name / f"{model}.parquet"), graph, tmp_path)
