from dataclasses import replace
from pathlib import Path

import numpy as np

import kgprobe as kp
from browser import made_graph
from kgprobe.comparison import Lineup
from kgprobe.studies.study_figures import StudyFigure, graph_digest, lineup_digest, points_digest, study_figures
from kgprobe.studies.study_work import StudyResult
from kgprobe.studies.verdicts import SourceRanks
from study_results import CLAIMS, STUDY, small_source, small_study


def _figures(result: StudyResult) -> dict[str, StudyFigure]:
    found = study_figures(result.study, result.graphs, result.sources.values(), {})
    assert len({figure.name for figure in found}) == len(found)
    return {figure.name: figure for figure in found}


def test_every_pair_that_claims_name_is_drawn_once(tmp_path: Path) -> None:
    other = CLAIMS.replace('name = "', 'name = "again-').replace(
        'model = "sharp"\nother = "plain"', 'model = "plain"\nother = "sharp"'
    )
    study = small_study(tmp_path, STUDY + CLAIMS + other)
    found = study_figures(study, {}, [small_source("mine", {"made-up": made_graph()})], {})
    names = [figure.name for figure in found if "made-up-" in figure.name]
    assert names == [
        "mine/rank-histogram-made-up-sharp-plain",
        "mine/popularity-ranks-made-up-sharp-even",
        "mine/case-studies-made-up-sharp-even",
    ]


def test_figures_that_cannot_be_drawn_say_why(result: StudyResult) -> None:
    found = _figures(result)
    missing = {name: figure.missing for name, figure in found.items() if figure.missing}
    assert missing == {
        "crossing-lines-absent": "the graph absent is not at hand",
        "popularity-density-absent": "the graph absent is not at hand",
        "source-0/decision-map-absent": "source-0 has no ranks of absent",
        "source-1/decision-map-absent": "source-1 has no ranks of absent",
    }


def _without_popularity(lineup: Lineup) -> Lineup:
    names = ("head", "relation", "tail", "candidates", "rank")
    runs = {
        model: tuple(
            kp.Ranks.from_columns(
                **{name: getattr(run, name) for name in names}, side=np.where(run.predicts_tail, "tail", "head")
            )
            for run in own
        )
        for model, own in lineup.runs.items()
    }
    return Lineup(runs, lineup.left_out)


def test_without_popularity_there_is_no_plane(result: StudyResult) -> None:
    source = result.sources["source-1"]
    unpopular = replace(source, lineups={"made-up": _without_popularity(source.lineups["made-up"])})
    found = _figures(replace(result, sources={"source-1": unpopular}))
    unknown = "the popularity of the targets of made-up is not known"
    assert found["source-1/decision-map-made-up"].missing == unknown
    assert found["source-1/heat-maps"].missing == f"{unknown}; source-1 has no ranks of absent"
    assert found["source-1/popularity-ranks-made-up-sharp-even"].missing == unknown
    assert found["source-1/rank-histogram-made-up-sharp-plain"].missing is None


def test_one_model_is_not_compared(result: StudyResult) -> None:
    lineup = result.sources["source-1"].lineups["made-up"]
    alone = SourceRanks("alone", {"made-up": replace(lineup, runs={"sharp": lineup.runs["sharp"]})})
    found = _figures(replace(result, sources={"alone": alone}))
    assert found["alone/decision-map-made-up"].missing == "there are no ranks of two models on made-up"
    histogram = found["alone/rank-histogram-made-up-sharp-plain"].missing
    assert histogram is not None
    assert "plain" in histogram


def test_heat_maps_name_what_ran_out_of_memory(result: StudyResult) -> None:
    drawn = _figures(result)["source-1/heat-maps"].draw()
    texts = [text.get_text() for axes in drawn.axes for text in axes.texts]
    assert texts == ["O.O.M."]
    assert sum(len(axes.images) for axes in drawn.axes) == 3


def test_names_become_safe_file_names(tmp_path: Path) -> None:
    text = STUDY.replace("[models.sharp]", '[models."../sharp $(x)"]').replace("[models.plain]", '[models."<b>"]')
    claim = """
[[claims]]
name = "c"
kind = "more-ranks"
statement = "s"
graph = "made-up"
model = "../sharp $(x)"
other = "<b>"
low = 1
high = 2
"""
    study = small_study(tmp_path, text + claim)
    names = [figure.name for figure in study_figures(study, {}, [small_source("a/../b", {})], {})]
    assert not [name for name in names if ".." in Path(name).parts or set(name) & set(" $()<>")]
    assert len(set(names)) == len(names)
    assert all(len(Path(name).parts) <= 2 for name in names)


def test_digests_tell_ranks_graphs_and_points_apart() -> None:
    graph = made_graph()
    source = small_source("mine", {"made-up": graph}, worlds=True)
    lineup = source.lineups["made-up"]
    same = small_source("other", {"made-up": made_graph()}, worlds=True)
    assert lineup_digest(lineup) == lineup_digest(same.lineups["made-up"])
    run = lineup.runs["sharp"][1]
    rank = run.rank.copy()
    rank[-1] = 1 + (rank[-1] == 1)
    columns = {name: getattr(run, name) for name in ("head", "relation", "tail", "candidates", "seed")}
    side = np.where(run.predicts_tail, "tail", "head")
    changed = kp.Ranks.from_columns(**columns, side=side, rank=rank).with_popularity(graph.popularity)
    one = replace(lineup, runs={**lineup.runs, "sharp": (lineup.runs["sharp"][0], changed)})
    assert lineup_digest(one) != lineup_digest(lineup)
    renamed = {"dull" if model == "sharp" else model: own for model, own in lineup.runs.items()}
    assert lineup_digest(replace(lineup, runs=renamed)) != lineup_digest(lineup)
    assert lineup_digest(replace(lineup, flags={})) == lineup_digest(lineup)
    flagged = small_source("mine", {"made-up": graph}, unfiltered=("plain",)).lineups["made-up"]
    assert lineup_digest(replace(flagged, flags={})) != lineup_digest(flagged)
    assert graph_digest(graph) == graph_digest(made_graph())
    assert graph_digest(graph) != graph_digest(made_graph(entity="other-{}"))
    points = source.worlds[0.25]
    assert points_digest(points) == points_digest(same.worlds[0.25])
    assert points_digest(replace(points, open=points.open + 1e-9)) != points_digest(points)
