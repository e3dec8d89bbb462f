import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import Finding, audited, audited_lineup, flags_of
from kgprobe.comparison import line_up
from kgprobe.errors import DataError
from planting import planted, silent


def error(kind: str, *models: str, severity: str = "error") -> Finding:
    return Finding(models, kind, f"The {kind} are wrong. Do them again.", severity)  # type: ignore[arg-type]


def test_errors_and_warnings_flag_and_notes_do_not() -> None:
    found = flags_of(
        [error("candidates", "a"), error("ties", "b", severity="warning"), error("ties", "c", severity="note")]
    )
    assert {model: (flag.error, flag.reasons) for model, flag in found.items()} == {
        "a": (True, ("The candidates are wrong",)),
        "b": (False, ("The ties are wrong",)),
    }


def test_a_model_has_all_its_reasons_and_a_pair_is_flagged_together() -> None:
    found = flags_of([error("candidates", "a", "b"), error("implausible", "b", severity="warning")])
    assert {model: flag.reasons for model, flag in found.items()} == {
        "a": ("The candidates are wrong",),
        "b": ("The candidates are wrong", "The implausible are wrong"),
    }
    assert found["b"].error
    assert found["b"].in_brackets == "(but `kgprobe check` objects: The candidates are wrong)"


def test_what_a_comparison_corrects_is_no_error() -> None:
    assert not flags_of([error("popularity", "a")])["a"].error
    assert flags_of([error("queries", "a"), error("sides", "b")]).keys() == {"a", "b"}
    assert flags_of([error("queries", "a"), error("sides", "b")], common=True) == {}
    assert flags_of([error("queries", "a", "b", severity="warning")]) == {}


def test_a_long_summary_ends_before_the_evidence() -> None:
    evidence = "; ".join(f"relation {i}: MRR 0.1, median of the others 0.9" for i in range(9))
    finding = Finding(("a",), "implausible", f"Ranks on the tail side are implausible: {evidence}. Look.", "warning")
    assert finding.summary == "Ranks on the tail side are implausible"
    assert Finding(("a",), "x", "Short: yes. No.", "note").summary == "Short: yes"
    assert Finding(("a",), "x", "Of v1.5 files, 3 differ", "note").summary == "Of v1.5 files, 3 differ"


def test_a_file_of_other_queries_is_left_out_instead_of_an_error(on_nations, nations) -> None:
    files = {name: silent(ranks) for name, ranks in on_nations.items()}
    files["valid"] = silent(kp.rank("random", nations, split="valid"))
    with pytest.raises(DataError, match="do not rank the same queries"):
        audited(files, graph=nations)
    found = audited(files, graph=nations, exclude_flagged=True)
    assert found.lineup.models == tuple(on_nations) == tuple(found.tables)
    assert list(found.lineup.excluded) == ["valid"]
    assert found.lineup.flags == {}
    assert ("valid",) in [finding.models for finding in found.findings]


def test_a_lineup_keeps_its_flags_and_can_be_reduced(on_nations, nations) -> None:
    late = on_nations["CP"].rank + 1
    files = {name: silent(ranks) for name, ranks in on_nations.items()}
    files["CP"] = planted(files["CP"], rank=np.minimum(np.floor(late), on_nations["CP"].candidates), ties=None)
    lineup = audited(files, graph=nations).lineup
    assert lineup.flagged == ("CP",)
    assert audited_lineup(lineup) == lineup
    less = audited_lineup(lineup, exclude_flagged=True)
    assert less.models == tuple(name for name in files if name != "CP")
    assert (less.flags, list(less.excluded)) == ({}, ["CP"])
    assert audited_lineup(line_up(files), exclude_flagged=True).models == tuple(files)  # never audited


def test_too_few_models_left_are_an_error_that_says_why(on_nations) -> None:
    raw = planted(on_nations["RESCAL"], candidates=np.full(402, 14), ties=None)
    files = {"CP": silent(on_nations["CP"]), "CP again": silent(on_nations["CP again"]), "raw": silent(raw)}
    assert audited(files, exclude_flagged=True, fewest=2).lineup.models == ("CP", "CP again")
    with pytest.raises(DataError, match="only 2 of 3 models would be left") as refused:
        audited(files, exclude_flagged=True, fewest=3)
    assert len(refused.value.problems) == 1
    assert refused.value.problems[0].startswith("raw: ")
    assert "`exclude_flagged=True`" in str(refused.value.remedy)
    assert audited(files | {"raw": files["CP"]}, exclude_flagged=True, fewest=9).lineup.excluded == {}
