"""The true answers on the device against Python sets."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from kgprobe.train.known import TrueAnswers
from trainings import CPU

ENTITIES = st.sampled_from([1, 2, 7, 8, 9, 16, 19])


@st.composite
def _facts(draw: st.DrawFn) -> tuple[int, list[tuple[int, int, int]]]:
    entities = draw(ENTITIES)
    entity = st.integers(0, entities - 1)
    return entities, draw(st.lists(st.tuples(entity, st.integers(0, 3), entity), min_size=1, max_size=40))


@given(_facts())
def test_answers_are_those_of_the_facts(made: tuple[int, list[tuple[int, int, int]]]) -> None:
    entities, facts = made
    columns = [np.array(column, dtype=np.int64) for column in zip(*facts, strict=True)]
    known = TrueAnswers(*columns, entities=entities, device=CPU)
    answers = [{target for h, r, target in facts if (h, r) == fact[:2]} for fact in facts]

    assert known.pairs == len({fact[:2] for fact in facts})
    same = [[left[:2] == right[:2] for right in facts] for left in facts]
    assert (known.pair_of[:, None] == known.pair_of[None]).tolist() == same

    everything = torch.arange(entities).expand(1, len(facts), entities)
    wanted = [[entity in own for entity in range(entities)] for own in answers]
    assert known.contain(known.pair_of[None], everything)[0].tolist() == wanted
    assert known.rows(known.pair_of[None])[0].tolist() == wanted
    assert known.count(known.pair_of).tolist() == [len(own) for own in answers]


def test_pairs_of_several_runs_are_looked_up_each_on_its_own() -> None:
    known = TrueAnswers(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([2, 0, 1]), entities=3, device=CPU)
    pair = known.pair_of[torch.tensor([[0, 1], [2, 0]])]
    drawn = torch.tensor([[[2, 0], [2, 0]], [[1, 1], [0, 2]]])
    assert known.contain(pair, drawn).tolist() == [[[True, False], [False, True]], [[True, True], [False, True]]]
    assert known.rows(pair).int().tolist() == [[[0, 0, 1], [1, 0, 0]], [[0, 1, 0], [0, 0, 1]]]
