import pytest

from kgprobe.predict.sources.files.places import WHOLE_NUMBERS, Place, place_problems

TAIL = Place("tail", "triples", 3, (9,))


@pytest.mark.parametrize(
    ("shape", "kind", "problems"),
    [
        ((3, 9), "bfloat16", []),
        ((2, 9), "float32", ["tail: 2 rows, but there are 3 triples"]),
        ((3, 8), "float32", ["tail: one row has shape (8,), expected (9,)"]),
        ((3,), "float32", ["tail: one row has shape (), expected (9,)"]),
        ((), "float32", ["tail: a single value, expected one row for each of the triples"]),
        ((3, 9), "int64", ["tail: holds int64, expected float16, bfloat16, float32 or float64"]),
        ((3, 9), "complex64", ["tail: holds complex64, expected float16, bfloat16, float32 or float64"]),
        ((3, 9), "F8_E4M3", ["tail: holds F8_E4M3, expected float16, bfloat16, float32 or float64"]),
        (
            (4, 1, 9),
            "bool",
            [
                "tail: holds bool, expected float16, bfloat16, float32 or float64",
                "tail: 4 rows, but there are 3 triples",
                "tail: one row has shape (1, 9), expected (9,)",
            ],
        ),
    ],
)
def test_everything_wrong_with_an_array_is_said(shape: tuple[int, ...], kind: str, problems: list[str]) -> None:
    assert TAIL.problems(shape, kind) == problems


def test_pickled_objects_are_named_with_the_safe_way() -> None:
    (problem,) = TAIL.problems((3, 9), "object")
    assert "never loaded; save it as plain numbers: float16, bfloat16, float32 or float64" in problem


def test_what_is_not_known_is_not_asked() -> None:
    assert Place("x", "triples", None, None).problems((7, 2, 2), "float32") == []
    assert Place("x", "triples", 7, None, WHOLE_NUMBERS).problems((7, 2, 2), "int32") == []


def test_arrays_that_are_missing_or_have_no_place() -> None:
    places = [TAIL, Place("head", "triples", 3, (9,)), Place("bias", "triples", 3, (), needed=False)]
    assert place_problems(places, {"tail": ((3, 9), "float32"), "heads": ((3, 9), "float32"), "x": ((), "int8")}) == [
        "no array 'head'",
        "array 'heads' has no place here; nearest: head",
        "array 'x' has no place here; there are: tail, head, bias",
    ]
