import pytest

from kgprobe.compare.audit import Finding, Severity, gravest_first


@pytest.mark.parametrize(("severity", "unclean"), [("error", True), ("warning", True), ("note", False)])
def test_notes_leave_a_file_clean(severity: str, unclean: bool) -> None:
    finding = Finding(("a",), "ties", "text", severity)
    assert (finding.unclean, finding.severity is Severity(severity)) == (unclean, True)


def test_an_unknown_severity_is_refused() -> None:
    with pytest.raises(ValueError, match="fatal"):
        Finding(("a",), "ties", "text", "fatal")


def test_the_order_within_a_severity_is_kept() -> None:
    findings = [Finding((str(i),), "k", "", s) for i, s in enumerate(["note", "error", "warning", "error", "note"])]
    assert [finding.models[0] for finding in gravest_first(findings)] == ["1", "3", "2", "0", "4"]
