from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import line_up
from pages import Plain, ask_lineup, lined_up, made_up, plain_interval


@pytest.mark.parametrize(
    ("by", "grouping", "name"),
    [("side", "side", "side"), ("relation", "relation", "relation"), ("popularity", "popularity:5", "popularity")],
)
def test_groups_have_the_scores_of_eval(by: str, grouping: str, name: str, tmp_path: Path) -> None:
    tables = made_up(rows=121, seeds=(2, 1), single=4)
    lineup = line_up(tables)
    shown = ask_lineup(tmp_path, lineup, f"return breakdown(data, '{by}', 0.5, 0.4);")
    assert sum(group["share"] for group in shown) == pytest.approx(1)
    by_label = {group["label"]: group for group in shown}
    for model, table in enumerate(tables.values()):
        kept = table.filter(table.candidates > 1)
        exact = kp.scores(kept, ["PROBE(alpha=0.5,beta=0.4)"], by=[grouping])
        assert {str(score.group[name]) for score in exact} == set(by_label)
        for score in exact:
            group = by_label[str(score.group[name])]
            assert group["values"][model] == pytest.approx(score.value, abs=1e-12)
            assert group["queries"] == score.queries


def test_groups_have_intervals_of_their_own_and_relations_come_by_size(tmp_path: Path) -> None:
    lineup = lined_up(rows=121, seeds=(2, 3), single=30)
    shown = ask_lineup(tmp_path, lineup, "return breakdown(data, 'relation', 0.5, 0.4);")
    assert [group["queries"] for group in shown] == sorted((group["queries"] for group in shown), reverse=True)
    for group in shown:
        kept = lineup.first.relation == int(group["label"])
        for i, model in enumerate(lineup.models):
            plain = Plain(lineup, model, 0.5, 0.4, kept)
            low, high = plain_interval(plain)
            assert group["low"][i] == pytest.approx(max(low, 0), abs=1e-5)
            assert group["high"][i] == pytest.approx(min(high, 1), abs=1e-5)
            if i == 0:
                assert group["share"] == pytest.approx(np.mean(plain.weight), rel=1e-9)
