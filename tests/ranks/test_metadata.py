import json
from typing import Any

import pytest

from kgprobe.errors import DataError
from kgprobe.ranks.metadata import (
    SCHEMA_VERSION,
    Basis,
    CandidatesInfo,
    ImportInfo,
    RanksInfo,
    WorldInfo,
    merged,
    package_version,
)


def test_metadata_come_back_as_they_were() -> None:
    info = RanksInfo(
        model="RotatE",
        graph="umls",
        graph_hash="ab",
        split="test",
        filtered=("train", "valid"),
        filter_hash="cd",
        settings={"source": ["a.json"], "größe": 1.5},
    )
    assert RanksInfo.from_metadata(info.to_metadata()) == info
    assert info.kgprobe == package_version()


def test_other_metadata_say_nothing() -> None:
    for metadata in (None, {}, {b"pandas": b"{}"}):
        assert RanksInfo.from_metadata(metadata) == RanksInfo(kgprobe="")


def test_a_newer_schema_is_refused() -> None:
    newer = RanksInfo(schema=SCHEMA_VERSION + 1).to_metadata()
    with pytest.raises(DataError, match="newer") as caught:
        RanksInfo.from_metadata(newer)
    assert f"schema {SCHEMA_VERSION + 1}" in str(caught.value)
    assert "upgrade" in caught.value.remedy


def test_what_a_later_version_adds_to_the_same_schema_is_passed_over() -> None:
    entry = json.loads(RanksInfo(model="m").to_metadata()[b"kgprobe"]) | {"later": 1}
    assert RanksInfo.from_metadata({b"kgprobe": json.dumps(entry).encode()}).model == "m"


@pytest.mark.parametrize("entry", [b"{", b"[]", b"{}", b'{"schema": "x"}', b'{"schema": null}', b"\xff"])
def test_unreadable_metadata_are_refused(entry: bytes) -> None:
    with pytest.raises(DataError, match="metadata"):
        RanksInfo.from_metadata({b"kgprobe": entry})


WHOLE = RanksInfo(
    model="RotatE",
    graph="umls",
    graph_hash="ab",
    split="test",
    filtered=("train", "valid"),
    filter_hash="cd",
    candidates=CandidatesInfo(Basis.given, "negatives.npz", "ef", "as in the file"),
    imported=ImportInfo(("a.csv", "b.csv"), "csv", "graph", ("not recorded: ties",)),
    world=WorldInfo("open", "tail", 0.7, "01", {"name": "tree", "seed": 0}, {"queries": 5}),
    settings={"dimension": 4},
)


def entry_of(info: RanksInfo = WHOLE) -> dict[str, Any]:
    return json.loads(info.to_metadata()[b"kgprobe"])


def read(entry: Any) -> RanksInfo:
    return RanksInfo.from_metadata({b"kgprobe": entry if isinstance(entry, bytes) else json.dumps(entry).encode()})


def test_every_field_comes_back_with_its_type() -> None:
    assert read(entry_of()) == WHOLE


WRONG = {
    "filtered": (5, "filtered is 5, expected a list"),
    "settings": (5, "settings is 5, expected an object"),
    "model": (["a"], "model is ['a'], expected text"),
    "graph": (7, "graph is 7, expected text"),
    "schema": (float("inf"), "schema is inf, expected a whole number"),
    "kgprobe": (None, "kgprobe is None, expected text"),
    "candidates": ("all", "candidates is 'all', expected an object"),
    "imported": ({}, "imported.source is missing"),
    "world": ({"world": True}, "world.world is True, expected text"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_value_of_another_type_is_named(name: str) -> None:
    value, problem = WRONG[name]
    with pytest.raises(DataError, match="metadata of this file cannot be read") as caught:
        read(entry_of() | {name: value})
    assert problem in caught.value.problems


def test_all_wrong_values_are_named_at_once() -> None:
    with pytest.raises(DataError) as caught:
        read(entry_of() | {name: value for name, (value, _) in WRONG.items()})
    assert len(caught.value.problems) == len(WRONG) + 1  # the import lacks its format as well


def test_values_inside_lists_and_objects_are_named() -> None:
    with pytest.raises(DataError) as caught:
        read(entry_of() | {"filtered": ["train", 3], "candidates": {"basis": "guessed", "hash": 1}})
    assert caught.value.problems == [
        "filtered[1] is 3, expected text",
        "candidates.basis is 'guessed', expected one of verified, given, recorded, assumed",
        "candidates.hash is 1, expected text",
    ]


HOSTILE = {
    "schema that overflows": b'{"schema": 1e400}',
    "digits": b'{"schema": ' + b"9" * 5000 + b"}",
    "deep": b'{"schema": 2, "settings": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    "deep list": b"[" * 100_000,
    "boolean schema": b'{"schema": true}',
    "text": b'"kgprobe"',
    "surrogate": b'{"schema": 2, "model": "\\ud800"',
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_metadata_are_refused(name: str) -> None:
    with pytest.raises(DataError, match="metadata"):
        read(HOSTILE[name])


def test_the_keys_of_schema_1_become_fields() -> None:
    old: dict[str, Any] = {"schema": 1, "kgprobe": "0.1", "model": "m", "graph_hash": "ab"}
    assert read(old | {"settings": {"sides": ["tail"]}}).candidates == CandidatesInfo(Basis.verified)
    given = read(old | {"settings": {"candidates": "types.tsv", "candidates_hash": "cd", "p": 1}})
    assert (given.candidates, given.settings) == (CandidatesInfo(Basis.given, "types.tsv", "cd"), {"p": 1})
    for counted, basis in {
        "as in the file; entities minus filtered": Basis.recorded,
        "entities minus known answers of train, test": Basis.assumed,
    }.items():
        settings = {"source": ["a.csv"], "format": "csv", "candidates": counted, "popularity": None, "notes": ["x"]}
        imported = read(old | {"settings": settings})
        assert imported.candidates == CandidatesInfo(basis, counted=counted)
        assert (imported.imported, imported.settings) == (ImportInfo(("a.csv",), "csv", None, ("x",)), {})
    world = {"world": "open", "split": {"train_share": 0.7}, "task": {"sides": "tail", "queries": 5}, "model_hash": "9"}
    assert read(old | {"settings": world}).world == WorldInfo(
        "open", "tail", 0.7, "9", {"train_share": 0.7}, {"queries": 5}
    )


def test_tables_keep_the_metadata_on_which_they_agree() -> None:
    other = RanksInfo(model="HousE", graph="umls", candidates=CandidatesInfo(Basis.assumed), settings={"dimension": 4})
    assert merged([WHOLE, other]) == RanksInfo(graph="umls", settings={"dimension": 4})
    assert merged([WHOLE, WHOLE]) == WHOLE


def test_imports_that_were_written_before_assumptions_were_listed_are_read() -> None:
    entry = json.loads(RanksInfo(imported=ImportInfo(("a.csv",), "csv")).to_metadata()[b"kgprobe"])
    del entry["imported"]["assumed"], entry["imported"]["verified"]
    imported = RanksInfo.from_metadata({b"kgprobe": json.dumps(entry).encode()}).imported
    assert imported == ImportInfo(("a.csv",), "csv")
    entry["imported"]["assumed"] = ["zero_based", "nothing"]
    with pytest.raises(DataError) as caught:
        RanksInfo.from_metadata({b"kgprobe": json.dumps(entry).encode()})
    assert caught.value.problems[0].startswith("imported.assumed[1] is 'nothing', expected one of filtered, unfiltered")
