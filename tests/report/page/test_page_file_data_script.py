"""A choice of queries and models gives the values of the package on these queries."""

import json
from pathlib import Path

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.comparison import Lineup, line_up
from kgprobe.report.page.payload import About, payload
from pages import ask, ask_lineup, lined_up, made_up

PROBE = "PROBE(alpha=0.5,beta=0.4)"
METRICS = ["MRR", "Hits@10", PROBE]


def _shown(folder: Path, lineup: Lineup, **choice: object) -> dict[str, list[float]]:
    """MRR, Hits@10 and PROBE of each model on the page."""
    body = (
        f"const part = selected(data, {json.dumps(choice)}); const found = scores(part, 0.5, 0.4);"
        "return found.map(({ model, value }) => [data.models[model].name, [...rankMetrics(part, model), value]]);"
    )
    return dict(ask_lineup(folder, lineup, body))


@pytest.mark.parametrize("case", [{}, {"seeds": (2, 3)}, {"single": 9}], ids=["plain", "seeds", "single candidates"])
def test_metrics_of_all_queries(case: dict[str, object], tmp_path: Path) -> None:
    tables = made_up(rows=121, **case)  # type: ignore[arg-type]
    shown = _shown(tmp_path, line_up(tables))
    for model, table in tables.items():
        assert shown[model] == pytest.approx(
            [kp.evaluate(table, [metric])[str(kp.parse(metric))] for metric in METRICS]
        )


@pytest.mark.parametrize(
    ("choice", "by"),
    [
        ({"relation": 2}, ["relation"]),
        ({"side": 0}, ["side"]),
        ({"relation": 1, "side": 1}, ["relation", "side"]),
        ({"band": 3}, ["popularity:5"]),
        ({"band": 1, "side": 0, "hidden": [1]}, ["popularity:5", "side"]),
    ],
    ids=str,
)
def test_metrics_of_the_chosen_queries_are_those_of_eval_by_group(
    choice: dict[str, int], by: list[str], tmp_path: Path
) -> None:
    tables = made_up(rows=121, seeds=(2, 1))
    shown = _shown(tmp_path, line_up(tables), **choice)
    assert list(shown) == [f"model {i}" for i in range(3) if i not in choice.get("hidden", [])]  # type: ignore[operator]
    for model, values in shown.items():
        bands = sorted({str(s.group["popularity"]) for s in kp.scores(tables[model], ["MRR"], by=["popularity:5"])})
        wanted: dict[str, object] = {
            "relation": choice.get("relation"),
            "side": ["head", "tail"][choice.get("side", 0)],
        }
        wanted["popularity"] = bands[choice.get("band", 0)]
        found = [
            score.value
            for metric in METRICS
            for score in kp.scores(tables[model], [metric], by=by)
            if all(score.group[name] == wanted[name] for name in score.group)
        ]
        assert values == pytest.approx(found, abs=1e-12, rel=0)


def test_a_part_has_intervals_groups_and_histogram_of_its_own_queries(tmp_path: Path) -> None:
    lineup = lined_up(rows=122, seeds=(2, 1), single=5)
    mine = lineup.first.predicts_tail
    runs = {model: tuple(run.filter(mine) for run in own) for model, own in lineup.runs.items()}
    body = (
        "const part = {part}; return [scores(part, 1, 0), differences(part, 1, 0), breakdown(part, 'relation', 1, 0),"
        " [0, 1, 2].map((model) => histogram(part, model)), sortQueries(part, 'model1', true).length,"
        " query(part, 3).row];"
    )
    ours = ask_lineup(tmp_path, lineup, body.format(part="selected(data, { side: 1 })"))
    # At beta 0, epsilon does not matter: a page of these queries alone has the same values.
    alone = ask_lineup(tmp_path, Lineup(runs, {}), body.format(part="data"))
    assert ours[-1] == int(np.flatnonzero(mine)[3])
    for table in (0, 2):
        for one, other in zip(ours[table], alone[table], strict=True):
            for key in ("value" if table == 0 else "values", "low", "high"):
                assert one[key] == pytest.approx(other[key], abs=1e-12)
    assert [own["value"] for own in ours[1]] == pytest.approx([own["value"] for own in alone[1]], abs=1e-12)
    assert ours[3:5] == alone[3:5]


def test_hidden_models_have_no_place(tmp_path: Path) -> None:
    lineup = lined_up(rows=300, models=4)
    body = (
        "const part = selected(data, { hidden: [HIDE] });"
        "return [bestFirst(data, 1, 0), scores(part, 1, 0), surface(part, [0, 1], [0])];"
    )
    order = ask_lineup(tmp_path, lineup, body.replace("HIDE", ""))[0]
    _, shown, plane = ask_lineup(tmp_path, lineup, body.replace("HIDE", str(order[0])))
    assert {own["model"] for own in shown} == set(order[1:])
    assert {own["model"]: own["place"] for own in shown} == {model: i + 1 for i, model in enumerate(order[1:])}
    assert plane["winner"][1][0] == order[1]


def test_a_choice_without_queries_has_no_scores(tmp_path: Path) -> None:
    table = kp.Ranks.from_columns(
        head=range(6), relation=[0, 0, 0, 1, 1, 1], tail=[9] * 6, side=["head"] * 3 + ["tail"] * 3, rank=[1] * 6,
        candidates=[9] * 6,
    )  # fmt: skip
    body = (
        "const part = selected(data, { relation: 0, side: 1 });"
        "return [part.rows, scores(part, 1, 0)[0].place, rankMetrics(part, 0), breakdown(part, 'side', 1, 0)];"
    )
    assert ask_lineup(tmp_path, line_up({"one": table}), body) == [0, None, [None, None], []]


def test_compressed_ranks_have_exact_metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgprobe.report.page.payload.MOST_RANKS", 1000)
    monkeypatch.setattr("kgprobe.report.page.compression.MOST_SAMPLED", 900)
    tables = made_up(rows=2000, single=30)
    packed = payload(line_up(tables), About()).packed
    shown, part = ask(
        tmp_path,
        packed,
        "const part = selected(data, { side: 0 });"
        "return [data.models.map((_, m) => rankMetrics(data, m)), [part.counted, scores(part, 1, 0)[0]]];",
    )
    for values, table in zip(shown, tables.values(), strict=True):
        assert values == pytest.approx(list(kp.evaluate(table, ["MRR", "Hits@10"]).values()), abs=1e-12)
    # The part is estimated on the sampled queries; its interval says so.
    assert part[0] == 150
    exact = kp.evaluate(tables["model 0"].filter(~tables["model 0"].predicts_tail), ["PROBE(alpha=1,beta=0)"])
    assert part[1]["low"] < next(iter(exact.values())) < part[1]["high"]
