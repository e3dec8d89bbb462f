from kgprobe.metrics import parse
from kgprobe.metrics.properties.family import Family, changed, is_whole


def test_a_metric_without_parameters_is_its_own_family() -> None:
    family = Family.of(parse("MRR"))
    assert family.by_parameter == {}
    assert family.members == (parse("MRR"),)


def test_values_that_the_metric_refuses_are_left_out() -> None:
    assert sorted(Family.of(parse("pMRR(p=0.3)")).by_parameter["p"]) == [0.3, 0.5, 1, 2]


def test_every_parameter_is_varied_by_itself() -> None:
    family = Family.of(parse("PROBE(alpha=0.5,beta=0.4)"))
    assert list(family.by_parameter) == ["alpha", "beta", "eps"]
    assert {member.parameters["beta"] for member in family.by_parameter["alpha"].values()} == {0.4}
    assert next(iter(family.members)) == family.metric
    assert len(set(family.members)) == len(family.members)


def test_separate_betas_may_meet() -> None:
    family = Family.of(parse("PROBE(alpha=1,beta_e=0.5)"))
    assert str(family.by_parameter["beta_r"][0.5]) == "PROBE(alpha=1,beta=0.5)"


def test_only_a_cut_off_is_whole() -> None:
    hits = parse("StratHits@5")
    assert [is_whole(hits, key) for key in hits.parameters] == [True, False, False]
    assert not is_whole(parse("pMRR"), "p")
    assert str(changed(hits, "k", 3)) == "StratHits@3(beta_e=1,beta_r=0)"
