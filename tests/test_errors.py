import pytest

from kgprobe.errors import DataError, UsageError, naming, nearest, spans


@pytest.mark.parametrize(("error", "code"), [(DataError, 1), (UsageError, 2)])
def test_everything_is_said_with_the_way_out(error: type[DataError] | type[UsageError], code: int) -> None:
    raised = error("cannot", ["this", "that"], "do otherwise")
    assert str(raised).splitlines() == ["cannot", "  - this", "  - that", "Remedy: do otherwise"]
    assert raised.exit_code == code


@pytest.mark.parametrize("title", ["not a table", "ranks.parquet: not a table"])
def test_the_place_is_named_once(title: str) -> None:
    with pytest.raises(DataError) as caught, naming("ranks.parquet"):
        raise DataError(title, ["no column"], "rank again")
    assert str(caught.value).splitlines() == ["ranks.parquet: not a table", "  - no column", "Remedy: rank again"]


def test_a_wrong_request_is_of_no_place() -> None:
    with pytest.raises(UsageError, match=r"^cannot$"), naming("ranks.parquet"):
        raise UsageError("cannot")


def test_without_problems_the_title_stands_alone() -> None:
    assert str(DataError("cannot")) == "cannot"


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([4], "4"),
        ([1, 2], "1-2"),
        ([1, 3, 4, 5, 9], "1, 3-5, 9"),
        (list(range(0, 200, 2)), ", ".join(map(str, range(0, 80, 2))) + " and 60 more"),
    ],
)
def test_spans(numbers: list[int], text: str) -> None:
    assert spans(numbers) == text


def test_the_nearest_words_are_found_whatever_their_case() -> None:
    assert nearest("RANK", ["Rank", "tail"]) == "; nearest: Rank"
    assert nearest("zzz", ["rank", "tail"]) == "; there are: rank, tail"
    assert nearest("zzz", []) == "; there are: none"


def test_a_printed_error_has_one_line_for_each_part_and_nothing_that_a_terminal_obeys() -> None:
    hostile = "a\x1b[2J\r\nRemedy: pay\u202e\u2028\x9b\ud800"
    error = DataError(hostile, [hostile, hostile], hostile)
    assert len(str(error).splitlines()) == 4
    assert not [c for c in str(error) if c != "\n" and (not c.isprintable())]
    assert str(error).encode()
    assert error.problems == [hostile, hostile]  # the data itself stays
