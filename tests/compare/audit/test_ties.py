import numpy as np
import pytest

import kgprobe as kp
from kgprobe.compare.audit import audit_files
from planting import only, planted, unclean


def notes(files, kind: str) -> list:
    return [finding for finding in audit_files(files) if finding.kind == kind and not finding.unclean]


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
    found = [finding for finding in audit_files(files) if finding.kind == "ties"]
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    if found:
        assert found[0].rows == round(share * len(files["CP"]))
        assert f"{share:.1%} of the ranks are halves" in found[0].message


def test_whole_ranks_of_tied_targets_are_not_their_mean(on_codex) -> None:
    ranks = on_codex["frequency"]
    late = ranks.optimistic >= 1 + ranks.ties  # so that the tie group still fits: what does not is a broken rule
    wrong = planted(ranks.filter(late), rank=ranks.optimistic[late])
    odd = int((ranks.ties[late] % 2 == 1).sum())
    found = only({"frequency": wrong})
    assert (found.kind, found.severity, found.rows) == ("ties", "error", odd)
    assert "all ranks are whole: they are the best or the worst of the tie group" in found.message


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
    assert f"these look like means over {runs} runs" in found.message
    assert found.rows == int(((2 * rank) % 1 != 0).sum())


def test_ties_that_a_mean_rank_cannot_have(on_codex) -> None:
    ranks = on_codex["CP"]
    wrong = planted(ranks, rank=np.where(np.arange(len(ranks)) < 3, 20.5, ranks.rank))
    found = only({"CP": wrong})
    assert (found.rows, "the rank must be the mean over the tie group" in found.message) == (3, True)
