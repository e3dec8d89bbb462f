from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from figure_inputs import HOSTILE, small_graph, small_lineup
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.popularity import TrainCounts
from kgprobe.ranks import Ranks
from kgprobe.report.figures.case_figures import (
    GROUPS,
    case_study,
    draw_case_studies,
    popularity_groups,
    relation_profiles,
)
from kgprobe.report.figures.style import ENDINGS, plain, save

GRAPH = small_graph([f"e{i}" for i in range(14)], ["likes", "knows", "avoids"])

STUDY = case_study(small_lineup(graph=GRAPH), GRAPH, "one", "other")

CASES = [case for group in STUDY.groups for case in group.cases]


def test_every_case_has_its_query_as_a_label() -> None:
    ranks = draw_case_studies(STUDY).axes[0]
    wanted = [
        f"({case.given.label}, {case.relation}, ?)\n→ {case.target.label}"
        if case.predicts_tail
        else f"(?, {case.relation}, {case.given.label})\n→ {case.target.label}"
        for case in CASES
    ]
    assert [label.get_text() for label in ranks.get_yticklabels()] == wanted


def test_both_ranks_are_at_their_places() -> None:
    ranks = draw_case_studies(STUDY).axes[0]
    markers = [tuple(line.get_xdata()) for line in ranks.lines if line.get_marker() != "None"]
    assert markers == [(rank,) for case in CASES for rank in case.ranks]


def test_bars_are_the_shares_with_the_querys_relation_first() -> None:
    bars = draw_case_studies(STUDY).axes[1].containers
    widths = [bar[0].get_width() for bar in bars]
    wanted = [
        share
        for case in CASES
        for profile in (case.given, case.target)
        for share in [
            profile.shares.get(case.relation, 0.0),
            *(s for name, s in profile.shares.items() if name != case.relation),
        ]
    ]
    assert widths == pytest.approx(wanted)


def test_hostile_labels_are_text(tmp_path: Path) -> None:
    graph = small_graph(HOSTILE, HOSTILE[:3])
    study = case_study(small_lineup(graph=graph), graph, "one", "other", count=3)
    figure = draw_case_studies(study)
    for ending in ENDINGS:
        save(figure, tmp_path / f"cases.{ending}")
    root = ElementTree.parse(tmp_path / "cases.svg").getroot()
    written = " ".join("".join(text.itertext()) for text in root.iter("{http://www.w3.org/2000/svg}text"))
    labels = {plain(case.target.label, 26) for group in study.groups for case in group.cases}
    assert len(labels) > 2
    assert all(label in written for label in labels)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_a_study_without_cases_can_be_drawn() -> None:
    lineup = small_lineup(graph=GRAPH)
    ranks = draw_case_studies(case_study(lineup, GRAPH, "one", "one")).axes[0]
    assert len(ranks.texts) == 4


CASE_GRAPH = small_graph()

LINEUP = small_lineup(graph=CASE_GRAPH)


def _weights(ranks: Ranks) -> np.ndarray:
    entity, relation = ranks.numbers("entity_popularity"), ranks.numbers("relation_popularity")
    return 1 / ((entity + entity[entity > 0].min()) * (relation + relation[relation > 0].min()))


def test_groups_are_quarters_by_weight_with_equals_together() -> None:
    weight = np.round(_weights(LINEUP.first), 6)  # equal products may differ in the last digit
    group, share = popularity_groups(LINEUP.first)
    for i, own in enumerate(weight):
        middle = (weight < own).sum() + ((weight == own).sum() - 1) / 2
        assert group[i] == int(middle * 4 / len(weight))
        assert share[i] == pytest.approx((weight <= own).mean())


def test_profiles_are_counted_by_hand() -> None:
    labelled = small_graph(relation_labels=["likes", "knows", "avoids"])
    for entity, profile in enumerate(relation_profiles(labelled, range(14))):
        counts = Counter(
            ["likes", "knows", "avoids"][r]
            for h, r, t in labelled.triples("train").tolist()
            for e in (h, t)
            if e == entity
        )
        assert profile.occurrences == counts.total()
        assert profile.shares == pytest.approx({name: count / counts.total() for name, count in counts.items()})
        assert list(profile.shares.values()) == sorted(profile.shares.values(), reverse=True)
    assert profile.occurrences == 0


def test_relations_of_one_name_are_added_up() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 1, 1]], relation_labels=["same", "same"])
    assert relation_profiles(graph, [0])[0].shares == {"same": 1.0}


@pytest.mark.parametrize("count", [1, 3])
def test_cases_are_the_largest_ratios_either_way(count: int) -> None:
    study = case_study(LINEUP, CASE_GRAPH, "one", "other", count=count)
    rank = {model: np.median([run.rank for run in LINEUP.runs[model]], axis=0) for model in ("one", "other")}
    group, share = popularity_groups(LINEUP.first)
    for code, found in enumerate(study.groups):
        rows = [i for i in range(len(LINEUP)) if group[i] == code]
        ahead = sorted(
            (i for i in rows if rank["one"][i] < rank["other"][i]), key=lambda i: rank["one"][i] / rank["other"][i]
        )
        behind = sorted(
            (i for i in rows if rank["one"][i] > rank["other"][i]), key=lambda i: rank["other"][i] / rank["one"][i]
        )
        assert [case.row for case in found.cases] == ahead[:count] + behind[:count]
        assert found.queries == len(rows)
        for mean, model in zip(found.means, ("one", "other"), strict=True):
            assert mean == pytest.approx(np.prod(rank[model][rows] ** (1 / len(rows))))
        for case in found.cases:
            assert case.ranks == (rank["one"][case.row], rank["other"][case.row])
            assert case.top_share == share[case.row]
    assert [found.name for found in study.groups] == list(GROUPS)


def test_a_case_names_its_query() -> None:
    names = [f"entity {i}" for i in range(14)]
    graph = small_graph(names, ["likes", "knows", "avoids"])
    queries = LINEUP.first
    for found in case_study(LINEUP, graph, "one", "other").groups:
        for case in found.cases:
            head, tail = names[queries.head[case.row]], names[queries.tail[case.row]]
            wanted = (head, tail) if case.predicts_tail else (tail, head)
            assert (case.given.label, case.target.label) == wanted
            assert case.predicts_tail == queries.predicts_tail[case.row]
            assert case.relation == ["likes", "knows", "avoids"][queries.relation[case.row]]


def test_models_that_agree_have_no_case() -> None:
    study = case_study(LINEUP, CASE_GRAPH, "one", "one")
    assert [found.cases for found in study.groups] == [()] * 4


def test_counts_of_some_pairs_are_no_profile() -> None:
    counts = TrainCounts.from_pairs(
        degree=np.array([2, 2]), entity=np.array([0]), relation=np.array([0]), count=np.array([1]), num_relations=1
    )
    graph = KnowledgeGraph("partial", 2, 1, {}, train_counts=counts)
    with pytest.raises(DataError, match="cannot be listed"):
        relation_profiles(graph, [0])
