import random
import re
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from kgprobe.errors import UsageError
from kgprobe.metrics import METRICS, evaluate, parse, parse_all
from kgprobe.metrics.catalogue import CITATIONS, reference_page, usage
from kgprobe.metrics.popularity_metrics import PROBE
from kgprobe.metrics.rank_metrics import MRR, Hits
from support import metrics, random_ranks


@settings(max_examples=200)
@given(metrics())
def test_names_round_trip(metric):
    again = parse(str(metric))
    assert again == metric
    assert hash(again) == hash(metric)
    assert str(again) == str(metric)
    assert type(again) is type(metric)


@settings(max_examples=100)
@given(metrics(), st.randoms(use_true_random=False))
def test_case_spaces_and_order_do_not_matter(metric, chance):
    assert parse(mangled(str(metric), chance)) == metric


def mangled(name: str, chance: random.Random) -> str:
    head, bracket, inside = name.partition("(")
    parts = inside.removesuffix(")").split(",") if bracket else []
    chance.shuffle(parts)
    text = head + (f"({','.join(parts)})" if bracket else "")
    text = "".join(chance.choice([c.upper(), c.lower()]) for c in text)
    for mark in "@(,=)":
        text = text.replace(mark, " " * chance.randrange(3) + mark + " " * chance.randrange(3))
    return f" {text} "


@settings(max_examples=100)
@given(metrics(), metrics())
def test_equal_metrics_are_those_of_equal_name(one, other):
    assert (one == other) == (str(one) == str(other))
    assert len({one, other}) == len({str(one), str(other)})


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_synonym_is_understood(metric):
    at = "@7" if metric.cutoff else ""
    for synonym in (metric.name, *metric.synonyms):
        assert type(parse(f"{synonym}{at}")) is metric


def test_no_two_metrics_share_a_name():
    owners: dict[str, set[str]] = {}
    for metric in METRICS:
        for alias in (metric.name, *metric.synonyms):
            owners.setdefault(re.sub(r"[\s_-]", "", alias).lower(), set()).add(metric.name)
    assert [names for names in owners.values() if len(names) > 1] == []


@pytest.mark.parametrize("text", ["hits@10", "Hits10", "hits_at_10", "H@10", "hits at 10", "HITS_AT@10", "Hits @ 10"])
def test_common_spellings_of_hits(text):
    assert parse(text) == Hits(10)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("PROBE", "PROBE(alpha=1,beta=0)"),
        ("probe(0.5, .4)", "PROBE(alpha=0.5,beta=0.4)"),
        ("PROBE(beta_e=0.2, beta_r=0.20)", "PROBE(alpha=1,beta=0.2)"),
        ("PROBE(beta_r=1)", "PROBE(alpha=1,beta_e=0,beta_r=1)"),
        ("PROBE(alpha=-inf,eps=1e-5)", "PROBE(alpha=-inf,beta=0,eps=1e-05)"),
        ("PROBE(eps_e=0.1)", "PROBE(alpha=1,beta=0,eps_e=0.1)"),
        ("StratHits@5(0.5)", "StratHits@5(beta_e=0.5,beta_r=0)"),
        ("p-mrr(0.33)", "pMRR(p=0.33)"),
        ("adjusted_hits_at_3", "AHits@3"),
    ],
)
def test_canonical_names(text, canonical):
    assert str(parse(text)) == canonical


def test_a_metric_is_its_own_parse():
    metric = PROBE(alpha=0.25)
    assert parse(metric) is metric


def test_repeats_are_dropped_in_order():
    assert parse_all(["mrr", PROBE(), "MRR", "probe(alpha=1)"]) == [MRR(), PROBE()]


def test_commas_outside_parentheses_separate_metrics():
    assert parse_all("PROBE(alpha=1,beta=0.4), MRR,Hits@3") == [PROBE(1, 0.4), MRR(), Hits(3)]
    with pytest.raises(UsageError, match=r"'PROBE\(alpha=1,beta=0' is not the name"):
        parse_all("PROBE(alpha=1,beta=0")
    with pytest.raises(UsageError, match="2 metrics are invalid"):
        parse_all("MRR,,MMR")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("MMR", "unknown metric 'MMR'"),
        ("", "not the name of a metric"),
        ("PROBE(alpha=1", "not the name of a metric"),
        ("PROBE(alpha=sharp)", "alpha must be a number, not 'sharp'"),
        ("PROBE(alpha=)", "alpha must be a number, not ''"),
        ("PROBE(alpha=nan)", "alpha must be a number"),
        ("PROBE(beta=inf)", "must be a finite number"),
        ("PROBE(eps=-0.1)", "must not be negative"),
        ("PROBE(gamma=1)", "has no parameter 'gamma'"),
        ("PROBE(alpha=1,alpha=2)", "alpha is given twice"),
        ("PROBE(beta=0.5,0.1)", "beta is given twice"),
        ("PROBE(beta=1,beta_e=2)", "beta sets both beta_e and beta_r"),
        ("PROBE(eps=1,eps_r=2)", "eps sets both eps_e and eps_r"),
        ("PROBE(1,2,3,4,5,6,7,8)", "has no parameter '8'"),
        ("Hits", "needs a cut-off"),
        ("Hits@", "k must be a whole number"),
        ("Hits@1.5", "k must be a whole number"),
        ("Hits@0", "k must be a whole number of at least 1"),
        ("Hits@10(k=3)", "has no parameter 'k'"),
        ("MRR@10", "takes no @"),
        ("MRR(2)", "it takes none"),
        ("pMRR(p=0)", "p must be above 0"),
        ("pMRR(p=inf)", "must be a finite number"),
        ("StratMRR(beta_e=nan)", "must be a finite number"),
        ("StratHits@3(beta_r=inf)", "must be a finite number"),
    ],
)
def test_names_that_make_no_sense(text, message):
    with pytest.raises(UsageError) as caught:
        parse(text)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "near"),
    [("MMR", "MRR"), ("Hit@10", "Hits@10"), ("PROB", "PROBE"), ("median ranks", "MedianRank"), ("AMRII", "AMRI")],
)
def test_the_nearest_names_are_suggested(text, near):
    with pytest.raises(UsageError, match="unknown metric") as caught:
        parse(text)
    assert near in caught.value.remedy


def test_all_bad_names_are_reported_at_once():
    with pytest.raises(UsageError, match="3 metrics are invalid") as caught:
        evaluate(random_ranks(2), ["MMR", "MRR", "Hits@x", "PROBE(alpha=?)"])
    text = str(caught.value)
    assert all(part in text for part in ("MMR", "did you mean", "Hits@x", "PROBE(alpha=?)"))


def test_a_single_bad_name_keeps_its_own_message():
    with pytest.raises(UsageError, match="unknown metric 'MMR'"):
        evaluate(random_ranks(2), ["MMR", "MRR"])


@pytest.mark.parametrize("k", [0, -1, 2.5, float("inf"), float("nan"), 10**400])
def test_a_cut_off_is_a_whole_number(k):
    with pytest.raises(UsageError, match="whole number"):
        Hits(k)


def test_a_whole_float_is_a_cut_off_too():
    assert str(Hits(3.0)) == "Hits@3"
    assert Hits(3.0) == Hits(3)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_every_parameter_has_a_default_so_that_usage_can_show_it(metric):
    assert parse(usage(metric)) == metric()


def test_the_page_in_the_documentation_is_current() -> None:
    page = Path(__file__).parents[2] / "docs" / "metrics.md"
    assert page.read_text() == reference_page(), "run 'make docs'"


def test_every_metric_has_a_section() -> None:
    titles = [line[3:] for line in reference_page().splitlines() if line.startswith("## ")]
    assert titles == [*(usage(metric) for metric in METRICS), "References"]


def test_every_reference_is_cited_in_full_and_no_other() -> None:
    assert {metric.facts.reference for metric in METRICS} == set(CITATIONS)


@pytest.mark.parametrize("kind", METRICS, ids=lambda kind: kind.name)
def test_a_class_has_the_name_of_the_grammar_and_makes_what_parse_makes(kind):
    assert kind.__name__ == kind.name in kp.metrics.__all__
    assert getattr(kp.metrics, kind.name) is kind
    made = [kind(), *(kind(**{field.name: 3 if field.name == "k" else 0.25}) for field in fields(kind))]
    for metric in made:
        assert kp.parse(str(metric)) == metric
        assert hash(kp.parse(str(metric))) == hash(metric)
    assert len(set(made)) >= len(fields(kind))  # the parameters make a difference
