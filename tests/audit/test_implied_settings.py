"""What an import assumed is told; ranks that betray another filter or sampled candidates are found without a count."""

from math import comb
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

import kgprobe as kp
from kgprobe.audit import Finding, check
from kgprobe.audit.implied_settings import _at_most_half, check_implied_settings
from kgprobe.audit.view import prepare
from kgprobe.ranks import Assumption, Basis, CandidatesInfo, Ranks
from kgprobe.ranks.importers import import_ranks
from least_squares import fit_cp, fit_rescal
from planting import planted, silent

FITS = {"CP": lambda graph: fit_cp(graph, dimension=30), "RESCAL": lambda graph: fit_rescal(graph, dimension=20)}


def implied(ranks: Ranks, graph: kp.KnowledgeGraph | None = None) -> list[Finding]:
    return list(check_implied_settings(prepare({"mine": ranks}, graph)))


def counted_as_filtered(ranks: Ranks, graph: kp.KnowledgeGraph) -> Ranks:
    """The table as an import without candidate counts leaves it: counts of the usual filter, ranks as they are."""
    left = graph.num_entities - graph.known_answers().others(
        ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail
    )
    possible = ranks.filter(ranks.rank <= left)
    return planted(silent(possible), candidates=left[ranks.rank <= left], ties=None).with_info(candidates=None)


@pytest.mark.parametrize(("graph", "name"), [("umls", "CP"), ("codex-s", "RESCAL"), ("kinship", "CP")])
def test_unfiltered_answers_of_the_ranked_split_are_betrayed(data: Path, graph: str, name: str) -> None:
    knowledge = kp.load_graph(data / "graphs" / graph)
    model = FITS[name](knowledge)
    for kind in ("all", "train", "train+valid"):
        ranks = counted_as_filtered(kp.rank(model, knowledge, filter=kind), knowledge)
        for told in (knowledge, None):
            found = implied(ranks, told)
            assert [finding.severity for finding in found] == ["warning"] * (kind != "all")
            for finding in found:
                assert finding.message.startswith("Answers of one query hardly ever share a rank: ")
                assert "filtered by train (and valid) only" in finding.message


def test_raw_ranks_that_are_said_to_be_filtered_are_betrayed(umls: kp.KnowledgeGraph) -> None:
    raw = counted_as_filtered(kp.rank(FITS["CP"](umls), umls, filter="none"), umls)
    assert "hardly ever share" in implied(raw, umls)[0].message


def test_filtered_ranks_that_are_said_to_be_raw_are_betrayed(umls, on_umls, tmp_path: Path) -> None:
    ranks = on_umls["CP"]
    columns = {name: ranks.column(name) for name in ("head", "relation", "tail")}
    columns |= {"side": ranks.column("side").cast(pa.string()), "rank": ranks.column("rank")}
    arrow_csv.write_csv(pa.table(columns), tmp_path / "ranks.csv")
    imported = import_ranks(tmp_path / "ranks.csv", graph=umls, raw=True)
    (found,) = implied(imported, umls)
    given = np.where(ranks.predicts_tail, ranks.head, ranks.tail)
    first = ranks.rank == 1
    queries = np.stack([given, ranks.relation, ranks.predicts_tail])[:, first]
    _, times = np.unique(queries, axis=1, return_counts=True)
    assert found.rows == int((times > 1).sum())
    assert found.message.startswith(f"Two answers of one query share rank 1 in {found.rows:,} queries. ")
    assert "unfiltered, as this file claims" in found.message
    optimistic = import_ranks(tmp_path / "ranks.csv", graph=umls, raw=True, tie="optimistic")
    assert implied(optimistic, umls) == []


def test_raw_and_train_filtered_ranks_that_say_so_are_not_betrayed(umls: kp.KnowledgeGraph) -> None:
    for kind in ("none", "train"):
        for name in ("relation-frequency", "random"):
            assert implied(silent(kp.rank(name, umls, filter=kind)), umls) == []


@pytest.mark.parametrize("name", ["umls", "wn18rr"])
def test_no_published_rank_is_accused_without_its_counts(data: Path, name: str) -> None:
    graph = kp.load_graph(data / "graphs" / name)
    for path in sorted((data / "published_ranks" / name).glob("*.parquet")):
        ranks = kp.read_ranks(path)
        for runs in (ranks, ranks.filter(ranks.seed == 1)):
            assert implied(counted_as_filtered(runs, graph)) == []
        assert implied(counted_as_filtered(runs, graph), graph) == []


@pytest.mark.parametrize("graph", ["family", "codex-s", "countries_s1"])
def test_no_honest_model_is_accused(data: Path, graph: str) -> None:
    knowledge = kp.load_graph(data / "graphs" / graph)
    for model in ("random", "entity-frequency", "relation-frequency", FITS["CP"](knowledge)):
        ranks = kp.rank(model, knowledge)
        for table in (ranks, planted(ranks, ties=None)):
            assert implied(table, knowledge) == []


def sampled(ranks: Ranks, size: int, seed: int = 0) -> Ranks:
    """Ranks among as many candidates, drawn without replacement, with the counts of all candidates."""
    rng = np.random.default_rng(seed)
    better = np.floor(ranks.rank).astype(int) - 1
    others = ranks.candidates.astype(int) - 1
    drawn = rng.hypergeometric(better, others - better, np.minimum(size, others))
    return planted(ranks, rank=1.0 + drawn, ties=None)


@pytest.mark.parametrize("size", [50, 100, 500, 1000])
@pytest.mark.parametrize("model", ["RotatE", "ComplEx", "TuckER", "RNNLogic"])
def test_ranks_among_a_sample_are_betrayed(data: Path, model: str, size: int) -> None:
    ranks = kp.read_ranks(data / "published_ranks" / "wn18rr" / f"{model}.parquet")
    ranks = ranks.filter(ranks.seed == 1)
    (found,) = implied(sampled(ranks, size))
    assert (found.kind, found.severity) == ("candidates", "warning")
    assert found.message.startswith(f"No rank is larger than {size + 1:,}, though there are up to 40,943 candidates")
    assert implied(planted(sampled(ranks, size), candidates=np.full(len(ranks), size + 1))) == []


def test_the_bound_of_the_error_probability_is_above_the_exact_one() -> None:
    for trials in (10, 40, 200):
        for successes in range(0, trials + 1, 5):
            exact = sum(comb(trials, k) for k in range(successes + 1)) / 2**trials
            assert _at_most_half(successes, trials) >= exact


def test_everything_that_was_assumed_is_told_as_unverifiable(umls, on_umls, tmp_path: Path) -> None:
    ranks = on_umls["CP"]
    columns = {name: ranks.column(name) for name in ("head", "relation", "tail")}
    columns |= {"side": ranks.column("side").cast(pa.string()), "rank": pa.array(ranks.rank - 1)}
    arrow_csv.write_csv(pa.table(columns), tmp_path / "ranks.csv")
    imported = import_ranks(tmp_path / "ranks.csv", graph=umls, zero_based=True, split="test")
    imported.write(tmp_path / "ranks.parquet")
    read = kp.read_ranks(tmp_path / "ranks.parquet")
    assumed = (Assumption.filtered, Assumption.mean_ranks, Assumption.zero_based)
    assert read.info.imported.assumed == assumed
    found = check({"mine": read}, umls)
    assert [(finding.kind, finding.severity) for finding in found] == [("unverifiable", "note")]
    assert all(one.meaning in found[0].message for one in assumed)


def test_files_that_only_record_assumed_candidates_are_told(on_umls) -> None:
    """Older files have no list of assumptions."""
    info = CandidatesInfo(Basis.assumed, counted="all entities (raw)")
    old = on_umls["CP"].with_info(candidates=info, filtered=())
    messages = [finding.message for finding in check({"mine": old}) if finding.kind == "unverifiable"]
    assert len(messages) == 1
    assert Assumption.unfiltered.meaning in messages[0]
    assert "all entities (raw)" in messages[0]
