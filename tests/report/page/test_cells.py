import numpy as np
import pytest

import kgprobe as kp
from kgprobe.compare import Lineup, line_up
from kgprobe.report.page import cells
from kgprobe.report.page.cells import ALPHAS, BETAS, deviation, histogram
from kgprobe.report.page.container import unpack
from kgprobe.report.page.payload import About, payload
from pages import lined_up


def _epsilons(lineup: Lineup) -> list[list[float] | None]:
    return [model["epsilon"] for model in unpack(payload(lineup, About()).packed)[0]["models"]]


def _spread_out(rows: int, *, seed: int = 0, popularity: bool = True) -> Lineup:
    """Models with ranks of all sizes among many candidates, and popularity of all sizes."""
    rng = np.random.default_rng(seed)
    candidates = rng.integers(9_000, 10_000, rows)
    known = {"entity_popularity": 10 ** rng.uniform(-6, -1, rows), "relation_popularity": rng.random(rows)}

    def table() -> kp.Ranks:
        rank = np.minimum(np.floor(np.exp(rng.exponential(2.5, rows))), candidates)
        return kp.Ranks.from_columns(
            head=np.arange(rows) // 2,
            relation=[0] * rows,
            tail=np.arange(rows) // 2,
            side=np.where(np.arange(rows) % 2 == 0, "head", "tail"),
            rank=rank,
            candidates=candidates,
            **(known if popularity else {}),
        )

    return line_up({"one": table(), "other": table()})


def test_every_evaluated_query_is_in_one_cell() -> None:
    lineup = lined_up(rows=300, single=20, seeds=(2, 1), other_candidates=True)
    found = histogram(lineup, _epsilons(lineup))
    runs = [run for own in lineup.runs.values() for run in own]
    assert [int(own.count.sum()) for own in found.cells] == [int((run.candidates > 1).sum()) for run in runs]
    assert found.strata_of == [0, 0, 0, 1, 1]


def test_small_ranks_keep_their_exact_value() -> None:
    lineup = _spread_out(4000)
    found = histogram(lineup, _epsilons(lineup))
    for own, (run,) in zip(found.cells, lineup.runs.values(), strict=True):
        restored = np.repeat(found.ranks[own.rank], own.count)
        small = np.sort(run.rank[run.rank <= 64])
        assert np.sort(restored[restored <= 64.5]) == pytest.approx(small, abs=1e-9)


def test_the_surface_is_that_of_the_cells_one_by_one() -> None:
    lineup = lined_up(rows=100)
    found = histogram(lineup, _epsilons(lineup))
    own, strata = found.cells[1], found.strata[found.strata_of[1]]
    expected = np.zeros((len(ALPHAS), len(BETAS)))
    for i, alpha in enumerate(ALPHAS):
        for j, beta in enumerate(BETAS):
            total = weight = 0.0
            for rank, stratum, count in zip(own.rank, own.stratum, own.count, strict=True):
                w = count * np.exp(-beta * strata.log_popularity[stratum])
                size = np.array([strata.size[stratum]])
                total += w * kp.transform.AffinePower(alpha)(found.ranks[[rank]], size)[0]
                weight += w
            expected[i, j] = total / weight
    assert found.surface(1, weighted=True) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("popularity", [True, False])
def test_the_deviation_is_small_and_is_the_largest(popularity: bool) -> None:
    lineup = _spread_out(20_000, popularity=popularity)
    found = histogram(lineup, _epsilons(lineup))
    stated = deviation(found, lineup, weighted=popularity)
    betas = BETAS if popularity else (0.0,)
    measured = 0.0
    for i, (run,) in enumerate(lineup.runs.values()):
        names = [f"PROBE(alpha={alpha},beta={beta})" for alpha in ALPHAS for beta in betas]
        exact = np.array(list(kp.evaluate(run, names).values())).reshape(len(ALPHAS), -1)
        measured = max(measured, float(np.abs(found.surface(i, popularity) - exact).max()))
    assert stated == pytest.approx(measured, abs=1e-12)
    assert 0 < stated < 2e-4


def test_bins_become_coarser_until_the_cells_are_few_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = _spread_out(20_000)
    finest = histogram(lineup, _epsilons(lineup))
    monkeypatch.setattr(cells, "MOST_CELLS", finest.size // 2)
    coarser = histogram(lineup, _epsilons(lineup))
    assert coarser.size <= finest.size // 2
    monkeypatch.setattr(cells, "MOST_CELLS", 0)
    coarsest = histogram(lineup, _epsilons(lineup))
    assert 0 < coarsest.size < coarser.size
    assert deviation(finest, lineup, True) < deviation(coarsest, lineup, True) < 0.01
