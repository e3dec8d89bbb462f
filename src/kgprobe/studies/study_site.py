"""The page of a study: verdicts first, then what is missing, tables and figures, with links to the explorer pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import groupby
from typing import Any

from kgprobe.metrics.metric import spelled
from kgprobe.ranks.metadata import package_version
from kgprobe.report.grid import UNDEFINED, as_text
from kgprobe.report.page.page_file import require_extras
from kgprobe.report.page.payload import without_folders
from kgprobe.studies.claim_kinds import Claim
from kgprobe.studies.study_file import Study
from kgprobe.studies.verdicts import Answer, Verdict

PARTS = {
    "graphs": "Graphs",
    "rq1": "Predictive sharpness",
    "rq2": "Popularity-bias robustness",
    "rq3": "All values of alpha and beta",
    "metrics": "Other metrics",
    "rq4": "Open world",
    "properties": "Six properties of metrics",
    "method": "Transformers, weights and geometry",
}
"""The parts of the page that have tables and figures, with their titles, in order."""

_CLASSES = {
    Answer.method: "holds",
    Answer.proved: "holds",
    Answer.runs: "partly",
    Answer.undecided: "open",
    Answer.contradicted: "against",
    Answer.contradicted_runs: "counter",
    Answer.untrusted: "doubt",
    Answer.unchecked: "none",
}
"""The style of each answer; no two answers have the same text, so that colour is never needed."""

_SIGNS = {"holds": "✓", "partly": "≈", "open": "?", "against": "✕", "counter": "≉", "doubt": "!", "none": UNDEFINED}

_MEANINGS = {
    Answer.method: "beyond the noise of queries and training runs, corrected over all claims",
    Answer.proved: "no counterexample was found",
    Answer.runs: "beyond the noise of queries; other training runs of the same models may differ",
    Answer.undecided: "the data allow both",
    Answer.contradicted: "the opposite is beyond noise, or there is a counterexample",
    Answer.contradicted_runs: "the opposite is beyond the noise of queries; other training runs may differ",
    Answer.untrusted: "the audit objects to a rank file that the claim is about",
    Answer.unchecked: "ranks are missing",
}


@dataclass(frozen=True)
class SiteTable:
    """A table on the page.

    Attributes:
        part: The part of the page.
        title: Its title.
        html: The table as HTML.
        files: Its files by format, relative to the page.
    """

    part: str
    title: str
    html: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class SiteFigure:
    """A figure on the page.

    Attributes:
        part: The part of the page.
        title: What it shows.
        image: The SVG file, relative to the page.
        files: Its files by format, relative to the page.
        wide: Whether it needs the width of the page.
    """

    part: str
    title: str
    image: str
    files: Mapping[str, str]
    wide: bool = False


@dataclass(frozen=True)
class SiteContent:
    """The content of the page.

    Attributes:
        study: The study.
        sources: The names of the sources of ranks.
        verdicts: The verdicts of all sources.
        tables: The tables.
        figures: The figures.
        pages: The explorer pages by source and graph, relative to the page.
        missing: What is missing and why, one sentence each.
        left_out: What was not written, by reason.
    """

    study: Study
    sources: Sequence[str]
    verdicts: Sequence[Verdict]
    tables: Sequence[SiteTable]
    figures: Sequence[SiteFigure]
    pages: Mapping[tuple[str, str], str]
    missing: Sequence[str]
    left_out: Mapping[str, Sequence[str]]


def render_site(content: SiteContent) -> str:
    """The HTML of the page; the same content gives the same text."""
    jinja2, _ = require_extras()
    folder, style = resources.files(__package__), resources.files("kgprobe.report.page") / "style.css"
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((folder / "study_page.html").read_text(encoding="utf-8"))
    study = content.study
    rows = list(claim_rows(content.verdicts, content.sources))
    parts = [
        {
            "id": name,
            "title": title,
            "tables": [table for table in content.tables if table.part == name],
            "figures": [figure for figure in content.figures if figure.part == name],
        }
        for name, title in PARTS.items()
    ]
    return str(
        template.render(
            title=study.title,
            style=style.read_text(encoding="utf-8") + (folder / "study_page.css").read_text(encoding="utf-8"),
            version=package_version(),
            facts=_facts(content),
            sources=list(content.sources),
            counts=[_counts(content.verdicts, source) for source in content.sources],
            sections=[(section, list(own)) for section, own in groupby(rows, lambda row: row.section)],
            differing=sum(row.differs for row in rows),
            filters=_filters(rows),
            legend=[(_chip(answer), _MEANINGS[answer]) for answer in Answer if _is_given(content.verdicts, answer)],
            verdict_files=[table.files for table in content.tables if table.part == "verdicts"],
            missing=list(map(without_folders, content.missing)),
            left_out=[(without_folders(reason), list(names)) for reason, names in content.left_out.items()],
            parts=[part for part in parts if part["tables"] or part["figures"]],
            explorers=_explorers(content),
        )
    )


@dataclass(frozen=True)
class Chip:
    """An answer as it is shown: a sign, a text, and the name of a style."""

    style: str
    sign: str
    text: str


def _chip(answer: Answer) -> Chip:
    style = _CLASSES[answer]
    return Chip(style, _SIGNS[style], str(answer))


@dataclass(frozen=True)
class ShownVerdict:
    """The verdict of one source on a claim.

    Attributes:
        source: The source.
        chip: The answer.
        brief: What is shown beside the answer.
        details: What is shown on demand: titles and texts.
    """

    source: str
    chip: Chip
    brief: str
    details: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class ClaimRow:
    """A row of the table of verdicts.

    Attributes:
        claim: The claim.
        section: The heading of its group of rows.
        verdicts: The verdicts by source; None where a source has none.
        differs: Whether two sources that could check the claim have different answers.
        why: Why they differ.
        same: Whether all sources have the same verdict for the same reason, so that it is shown once.
    """

    claim: Claim
    section: str
    verdicts: tuple[ShownVerdict | None, ...]
    differs: bool
    why: str
    same: bool

    @property
    def styles(self) -> str:
        """The styles of its answers, which the filter selects by."""
        found = list(dict.fromkeys(f"is-{one.chip.style}" for one in self.verdicts if one is not None))
        checked = ["is-checked"] if set(found) - {f"is-{_CLASSES[Answer.unchecked]}"} else []
        return " ".join([*found, *checked, *(["is-differing"] if self.differs else [])])


def claim_rows(verdicts: Sequence[Verdict], sources: Sequence[str]) -> Iterator[ClaimRow]:
    """The rows of the table of verdicts, in the order of the claims."""
    by_claim: dict[str, dict[str, Verdict]] = {}
    for verdict in verdicts:
        by_claim.setdefault(verdict.claim.name, {})[verdict.source] = verdict
    for own in by_claim.values():
        claim = next(iter(own.values())).claim
        checked = [one for one in own.values() if one.answer is not Answer.unchecked]
        differs = len({one.answer for one in checked}) > 1
        shown = tuple(_shown(own[source]) if source in own else None for source in sources)
        alike = {(one.answer, one.reason, one.numbers) for one in own.values()}
        yield ClaimRow(
            claim,
            f"Section {claim.section}" if claim.section else "Claims",
            shown,
            differs,
            why_different(checked) if differs else "",
            len(own) == len(sources) > 1 and len(alike) == 1,
        )


def why_different(verdicts: Sequence[Verdict]) -> str:
    """Why sources have different answers to the same claim, in one or two sentences."""
    doubted = [one for one in verdicts if one.answer is Answer.untrusted]
    reasons = [
        f"In {one.source}, the audit objects to {', '.join(flag.model for flag in one.flags)}." for one in doubted
    ]
    directions = {one.observed for one in verdicts if one.observed is not None}
    true = ", ".join(one.source for one in verdicts if one.observed)
    false = ", ".join(one.source for one in verdicts if one.observed is False)
    if len(directions) > 1:
        reasons.append(f"The claim is true of the numbers of {true}, and not of those of {false}.")
    elif not doubted and len(directions) == 1:
        which = "all" if directions == {True} else "none"
        reasons.append(
            f"The claim is true of the numbers of {which} of the sources; they differ in how certain that is."
        )
    return " ".join(reasons)


def _shown(verdict: Verdict) -> ShownVerdict:
    brief = ""
    if verdict.answer is Answer.untrusted:
        models = ", ".join(flag.model for flag in verdict.flags)
        brief = f"with {models}: {verdict.with_flagged}; without: {verdict.without_flagged}"
    elif verdict.answer is Answer.unchecked:
        brief = without_folders(verdict.reason or "")
    details = {
        "Observed": verdict.numbers,
        "Reason": () if verdict.flags else _texts(verdict.reason),
        "P-values": tuple(_p_values(verdict)),
        "What would decide it": _texts(verdict.needed),
        "The audit objects to": tuple(f"{flag.model}: {flag.text}" for flag in verdict.flags),
        "With these models": _texts(verdict.with_flagged),
        "Without them": _texts(verdict.without_flagged),
    }
    found = tuple((name, tuple(map(without_folders, texts))) for name, texts in details.items() if texts)
    return ShownVerdict(verdict.source, _chip(verdict.answer), brief, found)


def _texts(value: object) -> tuple[str, ...]:
    return () if value is None else (str(value),)


def _p_values(verdict: Verdict) -> Iterator[str]:
    for name, p in (("for the method", verdict.p), ("for these runs", verdict.p_runs)):
        if p is not None:
            yield f"{as_text(p) if p >= 1e-3 else f'{p:.1e}'} {name}, corrected over all claims"


def _is_given(verdicts: Sequence[Verdict], answer: Answer) -> bool:
    return any(verdict.answer is answer for verdict in verdicts)


def _counts(verdicts: Sequence[Verdict], source: str) -> dict[str, Any]:
    """How many claims have each answer by a source, and their share of a bar."""
    answers = [verdict.answer for verdict in verdicts if verdict.source == source]
    found = [(_chip(answer), answers.count(answer)) for answer in Answer if answer in answers]
    shares = [(chip, number, f"{100 * number / len(answers):.2f}") for chip, number in found]
    return {"source": source, "claims": len(answers), "answers": shares}


def _filters(rows: Sequence[ClaimRow]) -> list[tuple[str, str, int]]:
    """The choices of the filter: the name of a style, a text, and the number of rows."""
    choices = [("checked", "all that could be checked"), ("differing", "sources differ")] + [
        (style, " or ".join(str(answer) for answer in Answer if _CLASSES[answer] == style))
        for style in dict.fromkeys(_CLASSES.values())
    ]
    counts = [(style, text, sum(f"is-{style}" in row.styles.split() for row in rows)) for style, text in choices]
    return [(style, text, number) for style, text, number in counts if number]


def _facts(content: SiteContent) -> list[tuple[str, str]]:
    study = content.study
    return [
        ("graphs", f"{len(study.graphs):,}"),
        ("models", f"{len(study.models):,}"),
        ("claims", f"{len(study.claims):,}"),
        ("sources", ", ".join(content.sources)),
        ("alpha", ", ".join(map(spelled, study.alphas))),
        ("beta", ", ".join(map(spelled, study.betas))),
        ("level", f"{100 * study.level:.4g} %"),
    ]


def _explorers(content: SiteContent) -> list[tuple[str, list[str | None]]]:
    """A row for each graph with a page: the address of its page of each source."""
    rows = [
        (graph, [content.pages.get((source, graph)) for source in content.sources]) for graph in content.study.graphs
    ]
    return [(graph, pages) for graph, pages in rows if any(pages)]
