import numpy as np
import pytest

import kgprobe as kp
from kgprobe.compare.audit import skill
from kgprobe.compare.audit.skill import skills_of
from kgprobe.compare.audit.view import prepare


def every_rank(candidates: int) -> kp.Ranks:
    """One query at each place."""
    n = np.arange(candidates)
    side = ["tail"] * candidates
    return kp.Ranks.from_columns(
        head=n, relation=n * 0, tail=n * 0, side=side, rank=n + 1, candidates=n * 0 + candidates
    )


@pytest.mark.parametrize("candidates", [5, 30, 2000])
def test_chance_is_0_and_the_first_place_1_on_both_scales(candidates: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skill, "_ABLE", -1.0)
    skills = skills_of(prepare({"mine": every_rank(candidates)}, None))
    assert skills.scales.mean(axis=2) == pytest.approx(0, abs=1e-12)
    assert skills.scales.max(axis=2) == pytest.approx(1)
    assert skills.reciprocal_rank.max() == 1


def test_models_at_chance_and_models_with_intervals_are_no_witnesses(umls, on_umls) -> None:
    lists = kp.Ranks.from_columns(
        head=[0], relation=[0], tail=[1], side=["tail"], rank=[2], worst_rank=[9], candidates=[9]
    )
    files = {"random": kp.rank("random", umls), "CP": on_umls["CP"], "lists": lists}
    assert skills_of(prepare(files, umls)).models == ("CP",)


def test_cells_are_relations_by_side(on_umls) -> None:
    skills = skills_of(prepare(on_umls, None))
    cells = skills.cells
    for cell in range(0, len(cells.size), 9):
        members = (skills.relation == cells.relation[cell]) & (skills.predicts_tail == cells.predicts_tail[cell])
        assert np.array_equal(cells.which == cell, members)
        assert cells.size[cell] == members.sum()
        assert cells.mean(skills.scales[0, 0])[cell] == pytest.approx(skills.scales[0, 0, members].mean())


def test_without_a_model_the_others_stay(on_umls) -> None:
    skills = skills_of(prepare(on_umls, None))
    rest = skills.without(1)
    assert rest.models == ("frequency", "CP again", "RESCAL")
    assert np.array_equal(rest.scales, skills.scales[:, [0, 2, 3]])
