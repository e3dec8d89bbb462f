"""Why answers are where they are, on their way into a page."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.errors import UsageError
from kgprobe.models.rules.explanations import Explainer
from kgprobe.report.page.entries import explain_queries, explained_rows
from kgprobe.report.page.page_queries import draw_sample
from kgprobe.report.page.payload import About, payload, unpack
from kgprobe.train.trained_models import rule_runs
from pages import ask, lined_up
from rule_runs import MODELS, family, kept_run
from runs import TARGETS


def _tables() -> dict[str, kp.Ranks]:
    return {name: kp.read_ranks(kept_run(name).ranks) for name in (*MODELS, "distmult")}


@cache
def _lineup() -> Lineup:
    return line_up(_tables(), graph=family())


@cache
def _packed() -> bytes:
    lineup = _lineup()
    runs = rule_runs([kept_run(name).run for name in MODELS], _tables(), family())
    reasons = [explain_queries(lineup, name, run.seed, Explainer(run.scorer, run.graph)) for name, run in runs.items()]
    return payload(lineup, About(graph=family(), reasons=reasons)).packed


def test_every_query_of_a_small_page_is_explained_with_the_rank_of_its_seed() -> None:
    header, _ = unpack(_packed())
    lineup, tables = _lineup(), _tables()
    assert [own["model"] for own in header["reasons"]] == [0, 1]
    for own, name in zip(header["reasons"], MODELS, strict=True):
        assert own["seed"] == 3
        seeds = tables[name].seed
        assert seeds is not None
        ranks = tables[name].filter(seeds == 3)
        assert [query["row"] for query in own["queries"]] == list(range(len(lineup)))
        assert [query["answer"]["rank"] for query in own["queries"]] == ranks.rank.tolist()
        names = family().entity_label(lineup.first.target)
        assert [query["answer"]["name"] for query in own["queries"]] == names
        for query in own["queries"]:
            if query["best"] is None:
                assert query["answer"]["rank"] - query["answer"]["ties"] / 2 == 1
            else:
                assert query["best"]["score"] >= query["answer"]["score"]
                assert query["best"]["rank"] - query["best"]["ties"] / 2 == 1
            assert len(query["answer"]["rules"]) <= 3


def test_the_page_finds_the_reasons_of_a_query_and_puts_explained_ones_first(tmp_path: Path) -> None:
    body = "return [reasonsAt(data, 4).map(({ model, question }) => [model, question]), reasonsAt(data, 10000)];"
    found, none = ask(tmp_path, _packed(), body)
    head, relation, tail = (getattr(_lineup().first, name)[4] for name in ("head", "relation", "tail"))
    graph = family()
    ends = (
        [graph.entity_label([head])[0], "?"]
        if _lineup().first.predicts_tail[4]
        else ["?", graph.entity_label([tail])[0]]
    )
    question = f"{graph.relation_label([relation])[0]}({', '.join(ends)})"
    assert (found, none) == ([[0, question], [1, question]], [])


def test_a_page_without_rules_has_none(tmp_path: Path) -> None:
    packed = payload(lined_up(), About()).packed
    assert unpack(packed)[0]["reasons"] == []
    assert ask(tmp_path, packed, "return [reasonsAt(data, 0), sortQueries(data, 'reasons', true, '').length];") == [
        [],
        60,
    ]


def test_of_many_queries_those_are_explained_that_a_smaller_page_lists_too() -> None:
    lineup = lined_up(rows=2_000)
    rows = explained_rows(lineup, most=120)
    assert 60 < len(rows) <= 120
    assert set(rows) <= set(draw_sample(lineup, 400).rows.tolist())
    assert explained_rows(lineup, most=2_000) == list(range(2_000))


def test_a_run_is_matched_with_the_rank_files_that_it_has_made(tmp_path: Path) -> None:
    kept = kept_run("rnnlogic")
    by_first, by_second = (kp.read_ranks(kept.run / name) for name in ("ranks.parquet", "ranks-mrr.parquet"))
    checkpoint = kept.run / "best" / "mrr" / "seed-8.safetensors"
    alone = kp.rank(checkpoint, family())
    tables = {"first": by_first, "second": by_second, "alone": alone, "other": _tables()["plogicnet"]}
    found = rule_runs([kept.run], tables, family())
    assert {name: run.seed for name, run in found.items()} == {"first": 3, "second": 3, "alone": 8}
    files = {name: run.checkpoint.relative_to(kept.run / "best").as_posix() for name, run in found.items()}
    assert files == {
        "first": "probe-alpha-1-beta-0/seed-3.safetensors",
        "second": "mrr/seed-3.safetensors",
        "alone": "mrr/seed-8.safetensors",
    }
    with pytest.raises(UsageError, match="no rank table belongs"):
        rule_runs([checkpoint.with_name("seed-3.safetensors")], {"alone": alone}, family())
    of_checkpoint = rule_runs([checkpoint], {"alone": alone, "other": tables["other"]}, family())
    assert list(of_checkpoint) == ["alone"]
    for name, ranks in tables.items():
        if name in found:
            run = found[name]
            again = kp.rank(run.scorer, family())
            assert ranks.seed is not None or name == "alone"
            own = ranks if ranks.seed is None else ranks.filter(ranks.seed == run.seed)
            assert np.array_equal(again.rank, own.rank)
    assert TARGETS[0] == by_first.info.training.selected_by


def test_a_run_whose_rank_files_are_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="belongs to these runs; the rank tables are of distmult") as error:
        rule_runs([kept_run(name).run for name in MODELS], {"distmult": _tables()["distmult"]}, family())
    assert [problem.rsplit("/")[-1] for problem in error.value.problems] == [
        f"{name} has produced none of them" for name in MODELS
    ]


def test_a_run_of_embeddings_has_no_rules_to_show() -> None:
    with pytest.raises(UsageError, match="DistMult has no rules"):
        rule_runs([kept_run("distmult").run], _tables(), family())
