"""All metrics by name, the grammar of their names, and their reference table."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from kgprobe.errors import UsageError
from kgprobe.metrics import popularity_metrics as popularity
from kgprobe.metrics import rank_metrics as rank
from kgprobe.metrics.metric import Metric

# In the order of the reference table: the metrics that are reported most come first.
METRICS: tuple[type[Metric], ...] = (
    *(popularity.PROBE, popularity.rawPROBE, popularity.APROBE, popularity.ZPROBE),
    *(rank.MRR, rank.Hits, rank.MR, rank.MedianRank, rank.GMR, rank.HMR, rank.pMRR, rank.logMRR),
    *(popularity.StratMRR, popularity.StratHits, rank.WMR, rank.nWMR),
    *(rank.AMR, rank.AMRI, rank.AMRR, rank.AHits, rank.ZMR, rank.ZMRR, rank.ZHits),
    *(rank.IMR, rank.IGMR, rank.IMedianRank, rank.VarRank, rank.StdRank, rank.MADRank),
)

_LONGEST_NAME = 500
_FORM = re.compile(r"(?P<name>[^@()=,]+?)_?(?:@(?P<at>[^()]*))?(?:\((?P<inside>[^()]*)\))?")


def _plain(text: str) -> str:
    return re.sub(r"[\s_-]", "", text).lower()


_BY_NAME = {_plain(alias): metric for metric in METRICS for alias in (metric.name, *metric.synonyms)}


def usage(metric: type[Metric]) -> str:
    """The name of a metric with its default parameters.

    Example:
        >>> usage(rank.Hits), usage(rank.pMRR)
        ('Hits@10', 'pMRR(p=1)')
    """
    return str(metric())


def parse(text: str | Metric) -> Metric:
    """The metric with this name; case, spaces, hyphens and underscores are ignored.

    Example:
        >>> str(parse("probe( beta=.4, Alpha=0.50 )")), str(parse("mean reciprocal rank")), str(parse("hits@1"))
        ('PROBE(alpha=0.5,beta=0.4)', 'MRR', 'Hits@1')
        >>> parse("MMR")
        Traceback (most recent call last):
        ...
        kgprobe.errors.UsageError: unknown metric 'MMR'
        Remedy: did you mean MR, MRR, GMR, HMR, WMR? 'kgprobe metrics' lists all
    """
    if isinstance(text, Metric):
        return text
    if len(text) > _LONGEST_NAME:
        raise UsageError(f"'{text[:40]}...' is not the name of a metric", [f"it has {len(text):,} characters"])
    form = _FORM.fullmatch(text.strip())
    if form is None:
        raise UsageError(f"'{text}' is not the name of a metric", remedy="write for example PROBE(alpha=0.5,beta=0.4)")
    metric, at = _find(form["name"], form["at"], text)
    given = _arguments(metric, form["inside"], text)
    if at is not None:
        given[fields(metric)[0].name] = _number(metric, fields(metric)[0].name, at, text)  # type: ignore[arg-type]
    return metric(**given)


def parse_all(texts: str | Metric | Iterable[str | Metric]) -> list[Metric]:
    """The metrics with these names, without repeats; all invalid names are reported at once.

    A text may hold several names, separated by commas.

    Example:
        >>> [str(metric) for metric in parse_all(["mrr", "MRR, pMRR(p=2)", "hits@3"])], str(parse_all("mr")[0])
        (['MRR', 'pMRR(p=2)', 'Hits@3'], 'MR')
    """
    texts = [texts] if isinstance(texts, str | Metric) else texts
    metrics: dict[Metric, None] = {}
    problems: list[UsageError] = []
    for part in (part for text in texts for part in _split(text)):
        try:
            metrics[parse(part)] = None
        except UsageError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = [". ".join(filter(None, [e.title, e.remedy])) for e in problems]
        raise UsageError(f"{len(problems)} metrics are invalid", lines, "'kgprobe metrics' lists all metrics")
    return list(metrics)


def _split(text: str | Metric) -> list[str | Metric]:
    """Split a text at the commas outside parentheses."""
    if isinstance(text, Metric) or text.count("(") != text.count(")"):
        return [text]  # with a missing parenthesis, one name is reported as invalid, not two
    return [*re.split(r",(?![^()]*\))", text)]


def _find(name: str, at: str | None, text: str) -> tuple[type[Metric], str | None]:
    metric = _BY_NAME.get(_plain(name))
    if metric is None and at is None:
        # "Hits10" and "hits_at_10" are common spellings of Hits@10.
        spelled = re.fullmatch(r"(.*?)(\d+)", name.strip())
        candidate = _BY_NAME.get(_plain(spelled[1])) if spelled else None
        if spelled and candidate and candidate.cutoff:
            metric, at = candidate, spelled[2]
    if metric is None:
        raise UsageError(f"unknown metric '{text}'", remedy=f"{_nearest(name)}'kgprobe metrics' lists all")
    if at is not None and not metric.cutoff:
        raise UsageError(f"'{text}': {metric.name} takes no @", remedy=f"write {usage(metric)}")
    if at is None and metric.cutoff:
        raise UsageError(f"'{text}': {metric.name} needs a cut-off", remedy=f"write for example {usage(metric)}")
    return metric, at


def _nearest(name: str) -> str:
    aliases = difflib.get_close_matches(_plain(name), _BY_NAME, n=12, cutoff=0.5)
    likeness = {alias: difflib.SequenceMatcher(None, _plain(name), alias).ratio() for alias in aliases}
    # Between equally near names, the order of METRICS decides.
    nearest = sorted(aliases, key=lambda alias: (-likeness[alias], METRICS.index(_BY_NAME[alias])))
    names = list(dict.fromkeys(usage(_BY_NAME[alias]) for alias in nearest))[:5]
    return f"did you mean {', '.join(names)}? " if names else ""


def _arguments(metric: type[Metric], inside: str | None, text: str) -> dict[str, Any]:
    known = {field.name: field for field in fields(metric)}  # type: ignore[arg-type]
    open_names = [name for i, name in enumerate(known) if not (metric.cutoff and i == 0)]
    given: dict[str, Any] = {}
    for position, part in enumerate(filter(None, (p.strip() for p in (inside or "").split(",")))):
        key, equals, value = part.partition("=")
        key = key.strip().lower() if equals else (open_names[position] if position < len(open_names) else part)
        value = value if equals else part
        if key not in open_names:
            takes = f"it takes {', '.join(open_names)}" if open_names else "it takes none"
            raise UsageError(f"'{text}': {metric.name} has no parameter '{key}'", [takes])
        if key in given:
            raise UsageError(f"'{text}': {key} is given twice")
        given[key] = _number(metric, key, value, text)
    return given


def _number(metric: type[Metric], key: str, value: str, text: str) -> float | int:
    whole = metric.cutoff and key == fields(metric)[0].name  # type: ignore[arg-type]
    try:
        return int(value) if whole else float(value)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"'{text}': {key} must be {kind}, not '{value.strip()}'") from None


CITATIONS = {
    "PROBE": "the paper that this package implements, which extends Moon and Ko, How Sharp and Bias-Robust is a Model? "
    "Dual Evaluation Perspectives on Knowledge Graph Completion, WSDM 2026",
    "kgprobe": "defined here; see [formula by formula](formulas.md)",
    "Ali et al. 2021": "PyKEEN 1.0: A Python Library for Training and Evaluating Knowledge Graph Embeddings, "
    "JMLR 22(82)",
    "Berrendorf et al. 2020": "On the Ambiguity of Rank-Based Evaluation of Entity Alignment or Link Prediction "
    "Methods, arXiv:2002.06914",
    "Bordes et al. 2013": "Translating Embeddings for Modeling Multi-relational Data, NeurIPS 26",
    "Hoyt et al. 2022": "A Unified Framework for Rank-based Evaluation Metrics for Link Prediction in Knowledge "
    "Graphs, arXiv:2203.07544",
    "Mohamed et al. 2020": "Popularity Agnostic Evaluation of Knowledge Graph Embeddings, UAI 2020",
    "Tiwari et al. 2021": "Revisiting the Evaluation Protocol of Knowledge Graph Completion Methods for Link "
    "Prediction, WWW 2021",
    "Voorhees 1999": "The TREC-8 Question Answering Track Report, TREC 8",
    "Yang et al. 2022": "Rethinking Knowledge Graph Evaluation Under the Open-World Assumption, NeurIPS 35",
}


def reference_row(metric: type[Metric]) -> dict[str, Any]:
    """The declared facts of a metric, as a flat row."""
    example = metric()
    return {
        "metric": usage(metric),
        "meaning": metric.facts.title,
        "range": metric.facts.range,
        "better": "higher" if example.higher_is_better else "lower",
        "candidate_aware": example.fewest_candidates > 1,
        "monotone": metric.facts.monotone,
        "parameters": ", ".join(field.name for field in fields(metric)),  # type: ignore[arg-type]
        "reference": metric.facts.reference,
        "synonyms": ", ".join(metric.synonyms),
    }


def reference_page() -> str:
    """The metric reference of the documentation, in Markdown."""
    columns = ["metric", "meaning", "range", "better", "reference"]
    lines = [
        "# Metric reference",
        "",
        "Generated from the code by `make docs`; do not edit. Names are written as in the first column; case, spaces,",
        "hyphens and underscores are ignored, and the parameters shown are the defaults.",
        "",
        "| " + " | ".join(columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    for metric in METRICS:
        row = reference_row(metric)
        lines.append("| " + " | ".join(f"`{row[c]}`" if c == "metric" else str(row[c]) for c in columns) + " |")
    for metric in METRICS:
        row = reference_row(metric)
        lines += ["", f"## {row['metric']}", "", inspect.cleandoc(metric.__doc__ or "").split("\nExample:")[0].strip()]
        lines += ["", f"- range: {row['range']}, {row['better']} is better", f"- reference: {row['reference']}"]
        lines += [f"- parameters: {row['parameters']}"] if row["parameters"] else []
        lines += [f"- also written: {row['synonyms']}"] if row["synonyms"] else []
        if row["candidate_aware"]:
            lines.append("- leaves out queries with a single candidate, and reports how many")
        if not row["monotone"]:
            lines.append("- not monotone in the ranks: has no value and no interval where ranks are intervals")
    lines += ["", "## References", "", *(f"- {short}: {citation}" for short, citation in CITATIONS.items())]
    return "\n".join(lines) + "\n"
