from pathlib import Path
from xml.etree import ElementTree

import pytest

from figure_inputs import HOSTILE, small_graph, small_lineup
from kgprobe.report.figures.case_studies import draw_case_studies
from kgprobe.report.figures.cases import case_study
from kgprobe.report.figures.save import ENDINGS, save
from kgprobe.report.figures.style import plain

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
