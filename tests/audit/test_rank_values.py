from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import check
from planting import only, planted, unclean


def bare(ranks: kp.Ranks, rank) -> kp.Ranks:
    return planted(ranks, rank=np.minimum(rank, ranks.candidates), ties=None)


def test_ranks_that_are_off_by_one(on_umls) -> None:
    ranks = on_umls["CP"]
    assert unclean({"CP": bare(ranks, np.floor(ranks.rank))}) == []
    kept = ranks.filter(ranks.candidates > ranks.rank)
    found = only({"CP": bare(kept, np.floor(kept.rank) + 1)})
    assert (found.kind, found.severity) == ("rank values", "error")
    assert "No rank is better than 2" in found.message
    assert "off by one" in found.message


def test_one_side_that_is_off_by_one(on_umls) -> None:
    ranks = on_umls["CP"]
    found = only(
        {"CP": bare(ranks, np.where(ranks.predicts_tail & (ranks.candidates > 1), ranks.rank + 1, ranks.rank))}
    )
    assert found.message.startswith("Tail side: no rank is better than 2")


@pytest.mark.parametrize("model", ["CP", "RESCAL", "frequency"])
def test_both_sides_of_few_queries_are_named(on_nations, nations, model: str) -> None:
    ranks = on_nations[model]
    late = bare(ranks, np.floor(ranks.rank) + 1)
    found = [f for f in unclean({**on_nations, model: late}, nations) if f.kind == "rank values"]
    assert [(f.models, f.message.startswith("No rank is better than 2")) for f in found] == [((model,), True)]
    assert found[0].rows == int((ranks.candidates >= 10).sum())


def test_a_run_that_is_off_by_one_is_far_apart_for_that_reason_alone(data: Path) -> None:
    ranks = kp.read_ranks(data / "published_ranks/umls/HousE.parquet")
    found = only({"HousE": bare(ranks, np.where(ranks.seed == 3, ranks.rank + 1, ranks.rank))})
    assert found.message.startswith("Seed 3: no rank is better than 2")


@pytest.mark.parametrize("late", [(3,), (1, 2)])
def test_some_runs_that_are_off_by_one(on_umls, late: tuple[int, ...]) -> None:
    runs = dict(zip((1, 2, 3), (on_umls[name] for name in ("CP", "CP again", "RESCAL")), strict=True))
    moved = {s: bare(r, np.floor(r.rank) + (1 if s in late else 0)) for s, r in runs.items()}
    found = only({"mine": kp.merge_seeds(moved)})
    named = {(3,): "Seed 3: no rank is better than 2", (1, 2): "Seeds 1, 2: no rank is better than 2"}[late]
    assert found.message.startswith(named)
    assert found.rows == sum(int((runs[s].candidates >= 10).sum()) for s in late)


def test_a_model_that_never_comes_first_for_want_of_luck_is_clean() -> None:
    rng = np.random.default_rng(0)
    n = 6000
    ranks = kp.Ranks.from_columns(
        head=np.arange(n), relation=np.zeros(n, int), tail=np.zeros(n, int), side=["tail"] * n,
        rank=2 + rng.integers(0, 39000, n), candidates=np.full(n, 40000),
    )  # fmt: skip
    assert unclean({"random": ranks}) == []


def test_constant_scores(umls) -> None:
    ranks = kp.rank(lambda side, given, relation: np.zeros((len(given), umls.num_entities)), umls, name="constant")
    found = only({"constant": ranks}, umls)
    assert (found.kind, found.severity) == ("rank values", "error")
    assert "all candidates have the same score" in found.message


def test_constant_scores_with_ties_for_the_target(on_umls) -> None:
    found = only({"CP": bare(on_umls["CP"], np.ones(len(on_umls["CP"])))})
    assert "ranks are 1: ties are broken in favour of the target" in found.message
    assert found.severity == "warning"


MASSES = {
    "the last rank": lambda ranks, some: np.where(some, ranks.candidates, ranks.rank),
    "the middle rank": lambda ranks, some: np.where(some, (ranks.candidates + 1) / 2, ranks.rank),
    "1000: lists are cut off there": lambda ranks, some: np.where(some, 1000, ranks.rank),
    "11: lists are cut off there": lambda ranks, some: np.where(ranks.rank > 10, 11, ranks.rank),
}


@pytest.mark.parametrize("name", MASSES)
def test_a_mass_at_one_place(on_codex, name: str) -> None:
    ranks = on_codex["CP"]
    some = np.random.default_rng(0).random(len(ranks)) < 0.2
    found = [f for f in unclean({"CP": bare(ranks, MASSES[name](ranks, some))}) if f.kind == "rank values"]
    assert [f"ranks are exactly {name}" in finding.message for finding in found] == [True]
    assert found[0].severity == "warning"


def test_the_last_place_is_frequent_among_few_candidates(nations) -> None:
    assert unclean({"random": kp.rank("random", nations)}, nations) == []


def test_ties_that_are_recorded_put_nobody_second() -> None:
    n = np.arange(600)
    query = {"head": n, "relation": n * 0, "tail": n, "side": ["tail"] * 600}
    tied = kp.Ranks.from_columns(**query, rank=np.full(600, 2.0), ties=n * 0 + 2, candidates=n * 0 + 99)
    assert unclean({"tied": tied}) == []
    assert "off by one" in only({"late": planted(tied, ties=n * 0)}).message


def test_queries_that_a_model_says_nothing_about_are_a_note(on_codex) -> None:
    ranks = on_codex["CP"]
    some = np.random.default_rng(0).random(len(ranks)) < 0.2
    silent = planted(
        ranks,
        rank=np.where(some, (ranks.candidates + 1) / 2, ranks.rank),
        ties=np.where(some, ranks.candidates - 1, ranks.ties).astype(int),
    )
    found = [f for f in check({"CP": silent}) if f.kind == "rank values"]
    assert [(finding.severity, finding.rows) for finding in found] == [("note", pytest.approx(some.sum(), rel=0.02))]


def test_an_entity_that_is_always_second_is_no_convention() -> None:
    n = np.arange(300)
    query = {"head": n, "relation": n * 0, "tail": n * 0, "side": ["tail"] * 300}
    assert unclean({"frequency": kp.Ranks.from_columns(**query, rank=2 + n % 9, candidates=n * 0 + 99)}) == []


def notes(files, kind: str) -> list:
    return [finding for finding in check(files) if finding.kind == kind and not finding.unclean]


def test_recorded_ties_are_a_note_with_the_gap_that_eval_gives(on_codex) -> None:
    ranks = on_codex["frequency"]
    (found,) = notes({"frequency": ranks}, "ties")
    best, worst = (kp.evaluate(ranks, ["MRR"], tie=tie)["MRR"] for tie in ("optimistic", "pessimistic"))
    assert f"MRR is {best:.4f} with ties broken for the target and {worst:.4f} against it" in found.message
    assert found.rows == int((ranks.ties > 0).sum())


def with_halves(ranks: kp.Ranks, share: float) -> kp.Ranks:
    """As many ranks as that are halves, with nothing recorded."""
    rank = np.floor(ranks.rank)
    half = np.random.default_rng(0).permutation(len(ranks)) < round(share * len(ranks))
    return planted(
        ranks, rank=np.where(half, np.where(rank < ranks.candidates, rank + 0.5, rank - 0.5), rank), ties=None
    )


@pytest.mark.parametrize(("share", "severity"), [(0.17, "warning"), (0.05, "warning"), (0.031, "note"), (0.003, None)])
def test_halves_betray_ties_that_are_not_recorded(on_codex, share: float, severity: str | None) -> None:
    files = {"CP": with_halves(on_codex["CP"], share)}
    found = [finding for finding in check(files) if finding.kind == "ties"]
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    if found:
        assert found[0].rows == round(share * len(files["CP"]))
        assert f"{share:.1%} of the ranks are half-integers" in found[0].message


def test_whole_ranks_of_tied_targets_are_not_their_mean(on_codex) -> None:
    ranks = on_codex["frequency"]
    late = ranks.optimistic >= 1 + ranks.ties  # so that the tie group still fits: what does not is a broken rule
    wrong = planted(ranks.filter(late), rank=ranks.optimistic[late])
    odd = int((ranks.ties[late] % 2 == 1).sum())
    found = only({"frequency": wrong})
    assert (found.kind, found.severity, found.rows) == ("ties", "error", odd)
    assert "All ranks are integers: they are the best or worst ranks of the tie groups" in found.message


def test_optimistic_ranks_at_the_top_break_a_rule(on_codex) -> None:
    ranks = on_codex["frequency"]
    assert {finding.kind for finding in unclean({"frequency": planted(ranks, rank=ranks.optimistic)})} == {"rules"}


@pytest.mark.parametrize("runs", [3, 5])
def test_means_over_runs_are_recognised(on_codex, runs: int) -> None:
    rng = np.random.default_rng(0)
    ranks = on_codex["CP"]
    rank = np.mean(
        [np.clip(np.floor(ranks.rank) + rng.integers(0, 9, len(ranks)), 1, ranks.candidates) for _ in range(runs)],
        axis=0,
    )
    found = only({"CP": planted(ranks, rank=rank, ties=None)})
    assert f"They look like means over {runs} runs" in found.message
    assert found.rows == int(((2 * rank) % 1 != 0).sum())


def test_ties_that_a_mean_rank_cannot_have(on_codex) -> None:
    ranks = on_codex["CP"]
    wrong = planted(ranks, rank=np.where(np.arange(len(ranks)) < 3, 20.5, ranks.rank))
    found = only({"CP": wrong})
    assert (found.rows, "The rank must be the mean rank of the tie group" in found.message) == (3, True)
