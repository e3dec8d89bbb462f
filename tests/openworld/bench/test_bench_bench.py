import pytest

from benches import SMALL, made_pairs, made_points
from kgprobe.errors import UsageError
from kgprobe.openworld.bench import Bench, Settings, bench


def test_a_bench_has_a_row_for_each_metric() -> None:
    found = bench(made_pairs(), SMALL, world="mine", settings=Settings(replicates=20))
    rows = found.to_rows()
    assert [row["metric"] for row in rows] == [str(metric) for metric in found.points.metrics]
    assert {row["world"] for row in rows} == {"mine"}
    assert repr(found) == "Bench(4 models, 12 points, 6 metrics)"
    assert len(found.verdict) == len({(one.late, one.against) for one in found.differences}) > 0


def test_a_gentle_metric_is_more_consistent_than_a_sharp_one() -> None:
    rows = {row["metric"]: row for row in bench(made_pairs(6, 4, queries=60), ["PROBE(alpha=-1)", "Hits@1"]).to_rows()}
    gentle, sharp = rows["PROBE(alpha=-1,beta=0)"], rows["Hits@1"]
    assert gentle["tau"] > sharp["tau"] + 0.05
    assert gentle["discordant"] < sharp["discordant"]
    assert gentle["gap"] < sharp["gap"]


def _notes(model: list[int], mrr: list[float]) -> list[str]:
    values = [0.1 * i for i in range(len(model))]
    return Bench.of(made_points(values, values, model, mrr=mrr), settings=Settings(replicates=5)).notes


def test_notes_say_what_is_too_few() -> None:
    assert _notes([0, 0], [0.1, 0.2]) == [
        "There is one model only: its checkpoints are compared, and there are no intervals.",
        "No point is late: none of the 2 have a closed-world MRR above 0.5.",
    ]
    assert _notes([0, 0, 1], [0.1, 0.6, 0.7]) == [
        "Intervals over 2 models are rough: every one of them counts much.",
        "Only 2 of 3 points are late (have a closed-world MRR above 0.5): their statistics say little.",
        "No model has two late checkpoints, so that there is no spread at equal closed-world value.",
    ]
    assert _notes([i // 3 for i in range(15)], [0.9] * 15) == []


def test_settings_that_make_no_sense_are_all_named() -> None:
    with pytest.raises(UsageError) as raised:
        Settings(late=2, replicates=0, level=1)
    assert len(raised.value.problems) == 3
