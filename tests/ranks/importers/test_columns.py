import pytest

from kgprobe.ranks.importers.columns import SYNONYMS, find_columns, label_name, mapping_problems
from kgprobe.ranks.schema import COLUMNS


@pytest.mark.parametrize(("column", "name"), [(column, name) for column, names in SYNONYMS.items() for name in names])
def test_every_usual_name_is_found_in_any_spelling(column: str, name: str) -> None:
    for spelling in (name, name.upper(), name.replace("_", " "), name.replace("_", "-")):
        assert find_columns([spelling], {}).found == {column: spelling}


def test_no_usual_name_stands_for_two_columns() -> None:
    names = [name for column, synonyms in SYNONYMS.items() for name in (column, *synonyms)]
    assert len(set(names)) == len(names)
    assert set(COLUMNS) <= set(SYNONYMS)


def test_its_own_name_comes_before_a_usual_one() -> None:
    naming = find_columns(["subject", "head"], {})
    assert (naming.found, naming.problems) == ({"head": "head"}, [])


def test_what_the_user_names_comes_before_everything() -> None:
    naming = find_columns(["rank", "position", "ties"], {"rank": "position"})
    assert (naming.found, naming.chosen) == ({"rank": "position", "ties": "ties"}, frozenset({"rank"}))


def test_a_column_that_the_user_took_is_not_taken_again() -> None:
    assert find_columns(["ties"], {"equal": "ties"}).found == {"equal": "ties"}


def test_two_usual_names_need_a_decision() -> None:
    assert find_columns(["subject", "h"], {}).problems == [
        "'subject' and 'h' may all be the head: choose one with --map head=COLUMN"
    ]
    assert find_columns(["subject", "h"], {"head": "h"}).problems == []


def test_everything_wrong_with_the_names_is_said_at_once() -> None:
    naming = find_columns(["Position", "x", "x"], {"rnak": "x", "rank": "positon", "side": "x"})
    assert naming.problems == [
        "'rnak' is not a column of a rank table; nearest: rank",
        "column 'x' is named for several: rnak, side",
        "there is no column 'positon' to take as rank; nearest: Position",
        "column 'x' occurs twice",
    ]


def test_a_sound_mapping_has_no_problems() -> None:
    assert mapping_problems({name: f"column {name}" for name in SYNONYMS}) == []


def test_labels_do_not_take_the_names_of_other_columns() -> None:
    assert [label_name(name) for name in ("rank", "Rank", "filtered")] == ["source_rank", "Rank", "filtered"]
