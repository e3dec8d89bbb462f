from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import check
from kgprobe.audit.model_skill import Skills
from kgprobe.audit.plausibility import check_plausibility, easy_failures
from kgprobe.audit.view import View, prepare
from least_squares import fit_cp, fit_rescal
from planting import exchanged, planted, shuffled, unclean

SIZE = 4000


def world(models: int, *, fail: float, queries: int = 400) -> Skills:
    """Models that find everything easy, of which the last fails at a share of the tails of relation 0."""
    rng = np.random.default_rng(0)
    relation = np.where(np.arange(SIZE) < 2 * queries, 0, 1 + np.arange(SIZE) % 9)
    tail = np.arange(SIZE) % 2 == 1
    scale = rng.uniform(0.75, 1, (models, SIZE))
    at = np.flatnonzero((relation == 0) & tail)
    scale[-1, at[: int(fail * len(at))]] = 0.1
    return Skills(tuple("abcdef"[:models]), np.stack([scale, scale]), scale, relation, tail)


@pytest.mark.parametrize("models", [3, 6])
def test_a_relation_of_which_half_is_random(models: int) -> None:
    (found,) = easy_failures(world(models, fail=0.5))
    assert (found.model, found.cell, found.easy, found.share, found.elsewhere) == (models - 1, 1, 400, 0.5, 0.0)


SOUND = {
    "too few fail": world(4, fail=0.3),
    "too few queries": world(4, fail=0.5, queries=90),
    "two models": world(2, fail=0.5),
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_not_enough(name: str) -> None:
    assert list(easy_failures(SOUND[name])) == []


def test_a_model_that_fails_elsewhere_too_is_weak() -> None:
    skills = world(4, fail=0.5)
    skills.scales[:, -1, ::20] = 0.1
    assert list(easy_failures(skills)) == []


def test_queries_that_are_hard_for_one_other_model_do_not_count() -> None:
    skills = world(4, fail=0.5)
    skills.scales[:, 0, skills.relation == 0] = 0.5
    assert list(easy_failures(skills)) == []


def implausible(files, graph=None) -> list:
    return [finding for finding in unclean(files, graph) if finding.kind == "implausible"]


def published(data: Path, graph: str, *models: str) -> dict[str, kp.RankFile]:
    names = models or ("RotatE", "ComplEx", "HousE", "TuckER", "pLogicNet", "RNNLogic")
    return {name: kp.RankFile(data / f"published_ranks/{graph}/{name}.parquet") for name in names}


def some_of(view: View, models: tuple[str, ...], run: int | None = None) -> View:
    runs = {model: view.runs[model] if run is None else view.runs[model][run : run + 1] for model in models}
    return View(view.queries, runs, {model: view.info[model] for model in models}, view.graph)


@pytest.mark.parametrize("side", ["head", "tail"])
@pytest.mark.parametrize("model", ["CP", "RESCAL"])
def test_a_side_that_is_drawn_by_chance(on_umls, umls, side: str, model: str) -> None:
    broken = on_umls[model].predicts_tail == (side == "tail")
    files = {**on_umls, model: shuffled(on_umls[model], broken)}
    (found,) = implausible(files, umls)
    assert found.models == (model,)
    assert found.message.startswith(f"Ranks on the {side} side are implausible")
    assert found.rows == pytest.approx(broken.sum(), rel=0.05)  # but for queries with hardly any candidates


@pytest.mark.parametrize("graph", ["umls", "codex"])
def test_a_side_that_is_given_away(request, graph: str) -> None:
    files = request.getfixturevalue(f"on_{graph}")
    ranks = files["CP"]
    leaky = planted(ranks, rank=np.where(ranks.predicts_tail, 1.0, ranks.rank), ties=None)
    assert [found.models for found in implausible({**files, "CP": leaky})] == [("CP",)]


def test_a_relation_that_is_given_away(on_codex, codex) -> None:
    ranks = on_codex["RESCAL"]
    by_size = np.argsort(-np.bincount(ranks.relation))
    cells = {relation: ranks.predicts_tail & (ranks.relation == relation) for relation in by_size}
    large, cell = next((r, cell) for r, cell in cells.items() if (1 / ranks.rank[cell]).mean() < 0.3)
    assert implausible(on_codex, codex) == []
    leaky = planted(ranks, rank=np.where(cell, 1.0, ranks.rank), ties=None)
    (found,) = implausible({**on_codex, "RESCAL": leaky}, codex)
    assert found.models == ("RESCAL",)
    assert found.message.startswith("Ranks on the tail side in 1 of ")
    assert codex.relation_name([large])[0] + ": MRR 1.000" in found.message
    assert found.rows == int(cell.sum())


def test_a_weak_model_among_good_ones_is_not_accused(data: Path, umls) -> None:
    files = published(data, "umls", "RotatE", "HousE", "TuckER", "RNNLogic")
    weak = {name: kp.rank(name, umls) for name in ("random", "entity-frequency", "relation-frequency")}
    assert implausible({**files, **weak}, umls) == []


def test_a_good_model_among_weak_ones_is_not_accused(data: Path, umls, on_umls) -> None:
    files = {name: kp.rank(name, umls) for name in ("random", "entity-frequency", "relation-frequency")}
    assert implausible({**files, **published(data, "umls", "TuckER")}, umls) == []
    assert implausible({**on_umls, **published(data, "umls", "TuckER")}, umls) == []


CLEAN = {"wn18rr": ("RotatE", "HousE", "ComplEx", "RNNLogic"), "umls": ("RotatE", "HousE", "TuckER", "RNNLogic")}


@pytest.mark.parametrize("graph", CLEAN)
def test_the_sound_published_files_stay_clean_in_any_company_of_each_other(data: Path, graph: str) -> None:
    view = prepare(published(data, graph, *CLEAN[graph]), None)
    for size in (2, 3, 4):
        for models in combinations(CLEAN[graph], size):
            for run in (None, 0, 1, 2):
                assert list(check_plausibility(some_of(view, models, run))) == [], (models, run)


@pytest.mark.parametrize("graph", CLEAN)
def test_the_broken_published_file_is_found_in_any_company(data: Path, graph: str) -> None:
    view = prepare(published(data, graph), None)
    for size in (2, 3, 4):
        for others in combinations(CLEAN[graph], size):
            for run in (None, 0, 1, 2):
                found = list(check_plausibility(some_of(view, (*others, "pLogicNet"), run)))
                assert [finding.models for finding in found] == [("pLogicNet",)], (others, run)
                assert "on the tail side" in found[0].message
                assert found[0].unclean


def test_the_broken_sides_of_wn18rr(data: Path) -> None:
    (found,) = implausible(published(data, "wn18rr"), kp.load_graph(data / "graphs/wn18rr"))
    assert found.models == ("pLogicNet",)
    for evidence in (
        "_hypernym: MRR 0.976, median of the others 0.214",
        "_also_see: MRR 0.995, median of the others 0.570",
    ):
        assert evidence in found.message


def test_the_broken_relation_of_umls(data: Path, umls) -> None:
    found = implausible(published(data, "umls"), umls)
    assert [finding.models for finding in found] == [("pLogicNet",), ("ComplEx",)]
    assert "issue_in: MRR 0.086, median of the others 0.9" in found[1].message
    assert found[1].rows == 3 * 155


def test_two_models_give_no_more_than_a_note(data: Path) -> None:
    found = [f for f in check(published(data, "umls", "RotatE", "pLogicNet")) if f.kind == "implausible"]
    assert [(finding.models, finding.severity) for finding in found] == [(("pLogicNet",), "note")]
    assert "tail side: MRR 0.383, median of the others 0.782" in found[0].message


@pytest.mark.parametrize(("graph", "relation"), [("umls", "affects"), ("wn18rr", "_hypernym")])
@pytest.mark.parametrize("model", range(4))
def test_half_of_a_relation_that_is_drawn_by_chance(data: Path, graph: str, relation: str, model: int) -> None:
    knowledge, name = kp.load_graph(data / f"graphs/{graph}"), CLEAN[graph][model]
    files: dict = dict(published(data, graph, *CLEAN[graph]))
    ranks = kp.read_ranks(files[name].path)
    large = ranks.relation == np.bincount(ranks.relation).argmax()
    files[name] = shuffled(ranks, large & ((ranks.head + ranks.tail) % 2 == 0))
    found = implausible(files, knowledge)
    assert {finding.models for finding in found} == {(name,)}
    assert all(relation in finding.message for finding in found)


HONEST_FAILURES = {
    "one small relation": ({"a": (fit_cp, 40, 0), "odd": (fit_cp, 60, 1), "b": (fit_rescal, 40, 0)}, 39),
    "beside one that is unclear": ({"odd": (fit_cp, 40, 3), "a": (fit_rescal, 20, 1), "b": (fit_rescal, 40, 0)}, 266),
}


@pytest.mark.parametrize("name", HONEST_FAILURES)
def test_a_small_relation_that_a_low_rank_has_no_room_for_is_a_note(umls, name: str) -> None:
    models, queries = HONEST_FAILURES[name]
    files = {key: kp.rank(fit(umls, dimension=size, seed=s), umls) for key, (fit, size, s) in models.items()}
    found = [finding for finding in check(files, umls) if finding.kind == "implausible"]
    assert [(f.models, f.severity, f.rows) for f in found] == [(("odd",), "note", queries)]
    assert "performs: MRR" in found[0].message


EXCHANGED = {"both": lambda ranks: ranks.predicts_tail | True, "tail": lambda ranks: ranks.predicts_tail}


@pytest.mark.parametrize("side", EXCHANGED)
@pytest.mark.parametrize(
    ("graph", "models"),
    [
        ("umls", ("RotatE", "HousE", "TuckER", "RNNLogic")),
        ("umls", ("TuckER", "RotatE", "RNNLogic")),
        ("wn18rr", ("RNNLogic", "RotatE", "HousE", "ComplEx")),
        ("wn18rr", ("HousE", "RotatE", "ComplEx")),
    ],
)
def test_ranks_that_are_exchanged_between_queries(data: Path, graph: str, models: tuple[str, ...], side: str) -> None:
    files: dict = dict(published(data, graph, *models))
    assert implausible(files) == []
    ranks = kp.read_ranks(data / f"published_ranks/{graph}/{models[0]}.parquet")
    files[models[0]] = exchanged(ranks, EXCHANGED[side](ranks))
    (found,) = implausible(files)
    where = "" if side == "both" else " on the tail side"
    assert found.models == (models[0],)
    assert found.message.startswith(f"Ranks{where} are uncorrelated with those of the other models")


@pytest.mark.parametrize(("queries", "severity"), [(120, "warning"), (110, "note"), (40, "note")])
def test_a_fault_that_hardly_moves_a_score_is_a_note(queries: int, severity: str) -> None:
    size = 3900
    relation = np.concatenate([np.full(queries, 20), np.arange(size - queries) % 20])
    columns = {"head": np.arange(size), "relation": relation, "tail": np.zeros(size, int), "side": ["tail"] * size}

    def model(seed: int) -> kp.Ranks:
        rank = 1 + np.random.default_rng(seed).poisson(5 + relation)
        return kp.Ranks.from_columns(**columns, rank=rank, candidates=np.full(size, 900))

    files = {name: model(seed) for seed, name in enumerate("abcd")}
    assert [f for f in check(files) if f.kind == "implausible"] == []
    leaky = planted(files["d"], rank=np.where(relation == 20, 1.0, files["d"].rank))
    found = [f for f in check({**files, "d": leaky}) if f.kind == "implausible"]
    assert [(f.models, f.severity, f.rows) for f in found] == [(("d",), severity, queries)]
