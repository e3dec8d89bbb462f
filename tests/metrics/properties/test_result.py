from kgprobe.metrics import parse
from kgprobe.metrics.properties import Evidence, Property, PropertyResult


def test_a_row_is_flat_and_has_all_columns() -> None:
    row = PropertyResult(parse("AMRI"), Property.candidate_size, 7, Evidence("so it is"), alone=True).row()
    assert row | {"reason": "..."} == {
        "metric": "AMRI",
        "property": "candidate-size awareness",
        "holds": False,
        "searched": 7,
        "counterexample": "so it is",
        "paper": True,
        "agrees": False,
        "reason": "...",
        "note": "it holds for a query that is alone in its table",
    }
    assert row["reason"].startswith("a quotient")


def test_a_metric_that_the_paper_does_not_have_neither_agrees_nor_disagrees() -> None:
    row = PropertyResult(parse("ZMR"), Property.fixed_optimum, 7).row()
    assert (row["holds"], row["paper"], row["agrees"], row["reason"], row["note"]) == (True, None, None, None, None)


def test_an_example_that_also_refutes_the_literal_reading_is_told_once() -> None:
    evidence, other = Evidence("X"), Evidence("Y")
    result = PropertyResult(parse("PROBE"), Property.popularity, 7, witness=evidence, literal=evidence)
    assert result.note == "taken literally, as a weight that grows with popularity, it fails: X"
    result = PropertyResult(parse("PROBE"), Property.popularity, 7, witness=evidence, literal=other)
    assert result.note.startswith("for example, X; taken literally")
