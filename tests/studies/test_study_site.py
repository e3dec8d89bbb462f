import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kgprobe.comparison.lineup import Flag
from kgprobe.studies import study_site
from kgprobe.studies.study_site import SiteContent, SiteFigure, SiteTable, claim_rows, render_site, why_different
from kgprobe.studies.study_work import StudyResult
from kgprobe.studies.verdicts import Answer, Verdict
from reporting import HOSTILE
from study_results import STUDY, small_study

FLAG = Flag("plain", ("Filtered by train only",), error=True)


def _content(result: StudyResult, **changes: object) -> SiteContent:
    content = SiteContent(
        result.study, list(result.sources), result.verdicts, (), (), {("source-0", "made-up"): "pages/a.html"}, (), {}
    )
    return replace(content, **changes)  # type: ignore[arg-type]


class _Text(HTMLParser):
    """The texts of a page, without styles, and the elements that it has."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.links: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_data(self, data: str) -> None:
        if self._inside != "style" and data.strip():
            self.texts.append(" ".join(data.split()))


def test_every_answer_has_a_style_a_sign_and_a_meaning() -> None:
    assert set(study_site._CLASSES) == set(study_site._MEANINGS) == set(Answer)
    assert set(study_site._SIGNS) == set(study_site._CLASSES.values())
    style = (Path(study_site.__file__).parent / "study_page.css").read_text()
    for name in set(study_site._CLASSES.values()):
        assert f".chip-{name}" in style
        assert f"#show-{name}:checked" in style


def test_rows_follow_the_claims_and_sources(result: StudyResult) -> None:
    rows = list(claim_rows(result.verdicts, list(result.sources)))
    assert [row.claim for row in rows] == list(result.study.claims)
    for row in rows:
        own = {verdict.source: verdict for verdict in result.verdicts if verdict.claim is row.claim}
        shown = {one.source: one.chip.text for one in row.verdicts if one is not None}
        assert shown == {source: str(verdict.answer) for source, verdict in own.items()}


def test_sources_differ_where_both_could_check_a_claim(result: StudyResult) -> None:
    rows = {row.claim.name: row for row in claim_rows(result.verdicts, list(result.sources))}
    assert {name for name, row in rows.items() if row.differs} == {"top-ranks", "first"}
    assert rows["first"].why == "In source-0, the audit objects to plain."
    # Only one source has ranks of an open world.
    assert not rows["order"].differs
    assert rows["mrr"].same
    assert not rows["elsewhere"].same


def _verdict(result: StudyResult, source: str, answer: Answer, observed: bool | None, **more: object) -> Verdict:
    return Verdict(result.study.claims[0], source, answer, observed, **more)  # type: ignore[arg-type]


def test_why_sources_differ_is_said_in_words(result: StudyResult) -> None:
    sure = _verdict(result, "a", Answer.method, True)
    opposite = _verdict(result, "b", Answer.contradicted, False)
    assert why_different([sure, opposite]) == "The claim is true of the numbers of a, and not of those of b."
    unsure = _verdict(result, "b", Answer.undecided, True)
    assert "true of the numbers of all of the sources; they differ in how certain that is" in why_different(
        [sure, unsure]
    )
    both_false = [_verdict(result, "a", Answer.undecided, False), opposite]
    assert "true of the numbers of none of the sources" in why_different(both_false)
    doubted = _verdict(result, "b", Answer.untrusted, False, flags=(FLAG,))
    assert why_different([sure, doubted]) == (
        "In b, the audit objects to plain. The claim is true of the numbers of a, and not of those of b."
    )


def test_details_have_all_that_is_known(result: StudyResult) -> None:
    verdict = _verdict(
        result,
        "a",
        Answer.untrusted,
        True,
        numbers=("sharp is ahead by 0.1", "by 0.2"),
        reason="because of the audit",
        p=0.25,
        p_runs=1e-12,
        needed="about 6 training runs",
        flags=(FLAG,),
        with_flagged=Answer.undecided,
        without_flagged=Answer.method,
    )
    (row,) = claim_rows([verdict], ["a"])
    shown = row.verdicts[0]
    assert shown is not None
    assert dict(shown.details) == {
        "Observed": ("sharp is ahead by 0.1", "by 0.2"),
        "P-values": (
            "0.2500 for the method, corrected over all claims",
            "1.0e-12 for these runs, corrected over all claims",
        ),
        "What would decide it": ("about 6 training runs",),
        "The audit objects to": ("plain: Filtered by train only",),
        "With these models": ("undecided",),
        "Without them": ("holds for the method",),
    }
    assert shown.brief == "with plain: undecided; without: holds for the method"
    page = render_site(_content(result, sources=["a"], verdicts=[verdict]))
    assert all(text in page for _, texts in shown.details for text in texts)


def test_counts_are_those_of_the_verdicts(result: StudyResult) -> None:
    page = render_site(_content(result))
    for source in result.sources:
        answers = [str(verdict.answer) for verdict in result.verdicts if verdict.source == source]
        start = page.index(f"<bdi>{source}</bdi></h3>")
        row = page[start : page.index("</p>", start)]
        found = re.findall(r"</span>([^<]+) <b>(\d+)</b>", row)
        assert {text: int(number) for text, number in found} == {text: answers.count(text) for text in answers}
    assert "The sources disagree on <strong>2</strong> of 6 claims" in page


def test_verdicts_come_first(result: StudyResult) -> None:
    table = SiteTable("rq1", "Scores", "<table></table>", {"csv": "tables/rq1.csv"})
    page = render_site(_content(result, tables=[table], missing=["graph absent: no such graph"]))
    order = [page.index(f'<section id="{name}"') for name in ("verdicts", "missing", "explorers", "rq1")]
    assert order == sorted(order)


def test_hostile_texts_stay_texts(result: StudyResult) -> None:
    claim = replace(result.study.claims[0], name=HOSTILE[1], statement=HOSTILE[1], section=HOSTILE[2])
    verdict = Verdict(claim, HOSTILE[1], Answer.undecided, True, numbers=(HOSTILE[1],), reason=HOSTILE[8])
    content = _content(
        result,
        study=replace(result.study, title=HOSTILE[1]),
        sources=[HOSTILE[1]],
        verdicts=[verdict],
        figures=[SiteFigure("rq1", HOSTILE[1], "figures/a.svg", {"svg": "figures/a.svg"})],
        pages={(HOSTILE[1], "made-up"): "pages/a.html"},
        missing=[HOSTILE[1]],
        left_out={HOSTILE[1]: [HOSTILE[1]]},
    )
    parsed = _Text(render_site(content))
    assert "script" not in parsed.tags
    assert parsed.texts.count(HOSTILE[1]) >= 5


def test_nothing_is_loaded_from_elsewhere(result: StudyResult) -> None:
    figure = SiteFigure("rq1", "Ranks", "figures/a.svg", {"svg": "figures/a.svg"})
    page = render_site(_content(result, figures=[figure]))
    parsed = _Text(page)
    assert not [link for link in parsed.links if re.match(r"\w+:|//", link) and link != "data:,"]
    assert "http" not in page.replace("http-equiv", "")
    assert "url(" not in page


def test_folders_of_the_machine_are_not_shown(result: StudyResult) -> None:
    verdict = _verdict(result, "source-0", Answer.unchecked, None, reason="/home/ada/ranks/a.parquet: no such file")
    reason = "/home/ada/b.parquet is damaged"
    page = render_site(_content(result, verdicts=[verdict], missing=[reason], left_out={reason: ["figures/a"]}))
    assert "a.parquet: no such file" in page
    assert "/home" not in page


def test_a_study_without_claims_has_a_page(tmp_path: Path) -> None:
    study = small_study(tmp_path, STUDY)
    page = render_site(SiteContent(study, [], (), (), (), {}, (), {}))
    assert "The study makes no claims." in page


@pytest.mark.parametrize("sources", [1, 2])
def test_one_source_has_no_remark_on_agreement(result: StudyResult, sources: int) -> None:
    names = list(result.sources)[:sources]
    verdicts = [verdict for verdict in result.verdicts if verdict.source in names]
    page = render_site(_content(result, sources=names, verdicts=verdicts))
    assert ("The sources disagree" in page) == (sources == 2)
    assert ("sources differ" in page) == (sources == 2)
