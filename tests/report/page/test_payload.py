import gzip
import json

import numpy as np
import pytest

import kgprobe as kp
from kgprobe.audit import Finding
from kgprobe.comparison import line_up
from kgprobe.comparison.model_comparison import compare_models
from kgprobe.decision import map_band
from kgprobe.ranks.metadata import Basis, CandidatesInfo, RanksInfo, package_version
from kgprobe.report.page import payload as module
from kgprobe.report.page.payload import About, pack, payload, protocol, remarks, unpack
from pages import lined_up, made_up
from support import with_columns


@pytest.mark.parametrize(
    ("largest", "kind"), [(0, "u1"), (255, "u1"), (256, "u2"), (65535, "u2"), (65536, "u4"), (2**32 - 1, "u4")]
)
def test_whole_numbers_take_as_few_bytes_as_they_need(largest: int, kind: str) -> None:
    packed = pack({}, {"numbers": np.array([0, largest])})
    content = gzip.decompress(packed)
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["arrays"]["numbers"] == [kind, 0, 2, False]
    assert unpack(packed)[1]["numbers"].tolist() == [0, largest]


def test_doubles_keep_every_bit() -> None:
    numbers = np.random.default_rng(0).random(100) * 10.0 ** np.arange(-50, 50)
    assert unpack(pack({}, {"numbers": numbers}))[1]["numbers"].tobytes() == numbers.tobytes()


def test_every_array_begins_where_its_numbers_may() -> None:
    arrays = {name: np.arange(length) for name, length in (("one", 1), ("three", 3), ("many", 300), ("none", 0))}
    arrays["doubles"] = np.array([0.5])
    packed = pack({"text": "odd"}, arrays)
    content = gzip.decompress(packed)
    start = 8 + int.from_bytes(content[:8], "little")
    places = json.loads(content[8:start])["arrays"]
    assert start % 8 == 0
    assert all(offset % 8 == 0 for _, offset, _, _ in places.values())
    assert {name: array.tolist() for name, array in unpack(packed)[1].items()} == {
        name: array.tolist() for name, array in arrays.items()
    }


def test_steps_come_back_as_the_values_and_cost_nothing_where_they_repeat() -> None:
    sides = np.tile(np.arange(100_000), 2)
    packed = pack({}, {"triple": sides}, frozenset({"triple"}))
    assert np.array_equal(unpack(packed)[1]["triple"], sides)
    assert len(packed) < 2_000 < 100_000 < len(pack({}, {"triple": sides}))


def test_the_same_content_is_the_same_bytes() -> None:
    packed = pack({"a": 1}, {"b": np.arange(5)})
    assert packed == pack({"a": 1}, {"b": np.arange(5)})
    assert packed[4:8] == bytes(4), "the time of writing must not be in it"


def test_text_that_is_no_text_does_not_stop_it() -> None:
    assert unpack(pack({"file": "caf\udce9.parquet"}, {}))[0] == {"file": "caf?.parquet"}


def test_no_number_is_refused_rather_than_written_as_invalid_json() -> None:
    with pytest.raises(ValueError, match="JSON"):
        pack({"value": float("nan")}, {})


def _header(**about: object) -> dict[str, object]:
    return unpack(payload(lined_up(), About(**about)).packed)[0]  # type: ignore[arg-type]


def test_what_is_said_about_it_is_in_the_header() -> None:
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], num_entities=99, num_relations=9, name="tiny")
    header = _header(
        title="Mine",
        command="kgprobe report a b",
        written="2026-01-02",
        level=0.9,
        graph=graph,
        files={"model 1": "b.parquet"},
        notes=["a remark"],
    )
    assert {key: header[key] for key in ("title", "command", "written", "level", "exact", "compression")} == {
        "title": "Mine",
        "command": "kgprobe report a b",
        "written": "2026-01-02",
        "level": 0.9,
        "exact": True,
        "compression": None,
    }
    assert header["graph"] == {"name": "tiny", "hash": graph.content_hash, "entities": 99}
    assert [(model["name"], model["file"]) for model in header["models"]] == [
        ("model 0", ""),
        ("model 1", "b.parquet"),
        ("model 2", ""),
    ]
    assert header["notes"] == ["a remark"]
    assert header["version"] == package_version()


def test_findings_estimates_and_differences_are_in_the_header_and_no_number_is_null() -> None:
    lineup = lined_up(models=2)
    comparison = compare_models(lineup, ["MRR", "ZMRR", "MedianRank"], replicates=100, permutations=100)
    finding = Finding(("model 0", "model 1"), "candidates", "one too few", "warning", 12)
    header, _ = unpack(payload(lineup, About(comparison=comparison, findings=[finding])).packed)
    assert header["findings"] == [
        {
            "models": ["model 0", "model 1"],
            "kind": "candidates",
            "severity": "warning",
            "message": "one too few",
        }
    ]
    for written, made in zip(header["estimates"], comparison.estimates, strict=True):
        assert (written["model"], written["metric"], written["value"]) == (made.model, str(made.metric), made.value)
        assert written["low"] == (made.interval.low if np.isfinite(made.interval.low) else None)
        assert (written["trusted"], written["remark"]) == (made.interval.trusted, made.interval.remark)
    for written, made in zip(header["differences"], comparison.differences, strict=True):
        assert (written["first"], written["second"], written["value"]) == (made.first, made.second, made.value)
        assert (written["p"], written["holm"], written["bh"]) == (made.p, made.holm, made.bh)


def test_epsilon_is_the_smallest_popularity_of_the_evaluated_queries_of_all_seeds_of_a_model() -> None:
    lineup = lined_up(single=9, seeds=(2, 1))
    header, _ = unpack(payload(lineup, About()).packed)
    for model, runs in zip(header["models"], lineup.runs.values(), strict=True):
        for written, column in zip(model["epsilon"], ("entity_popularity", "relation_popularity"), strict=True):
            known = np.concatenate([run.numbers(column)[run.candidates > 1] for run in runs])
            assert written == known[known > 0].min()


def test_queries_that_do_not_count_are_counted_and_said() -> None:
    tables = made_up(single=4)
    tables["model 1"] = tables["model 1"].filter(np.arange(len(tables["model 1"])) > 2)
    made = payload(line_up(tables, common=True), About())
    header, _ = unpack(made.packed)
    assert [model["notShared"] for model in header["models"]] == [3, 0, 3]
    assert all(model["singleCandidate"] <= 4 for model in header["models"])
    assert made.remarks == header["notes"]
    assert "model 0: 3 queries that not all models have are left out." in made.remarks


def test_the_same_input_gives_the_same_bytes() -> None:
    assert payload(lined_up(), About()).packed == payload(lined_up(), About()).packed


def test_quantiles_are_those_of_the_t_distribution() -> None:
    from scipy import stats

    _, arrays = unpack(payload(lined_up(), About(level=0.9)).packed)
    table = arrays["quantiles"]
    assert table[0] == pytest.approx(stats.norm.ppf(0.95), abs=1e-12)
    assert table[-1] == pytest.approx(stats.t.ppf(0.95, 1), abs=1e-9)
    inverse = np.linspace(0.001, 1, 777)
    assert np.interp(inverse, np.linspace(0, 1, len(table)), table) == pytest.approx(
        stats.t.ppf(0.95, 1 / inverse), abs=1e-5
    )


def test_every_plane_has_its_band_and_without_queries_there_is_none() -> None:
    lineup = lined_up(rows=400)
    _, arrays = unpack(payload(lineup, About()).packed)
    assert arrays["bands"][0] == pytest.approx(map_band(lineup), rel=1e-9)
    assert arrays["wideBands"][0] == pytest.approx(map_band(lineup, [-5, 5], [-2, 2]), rel=1e-9)
    _, arrays = unpack(payload(lined_up(rows=20, single=20), About()).packed)  # a warning would be an error here
    assert np.array_equal(arrays["bands"], arrays["quantiles"])


def test_more_ranks_than_a_page_holds_are_compressed(monkeypatch: pytest.MonkeyPatch) -> None:
    lineup = lined_up(rows=400)
    monkeypatch.setattr(module, "MOST_RANKS", 3 * 400 - 1)
    made = payload(lineup, About())
    header, _ = unpack(made.packed)
    assert header["exact"] is False
    assert header["compression"] in made.remarks
    monkeypatch.setattr(module, "MOST_RANKS", 3 * 400)
    assert unpack(payload(lineup, About()).packed)[0]["exact"] is True


def test_names_that_take_too_much_room_make_it_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows = 4000
    names = ["".join(map(chr, rng.integers(97, 123, 60))) for _ in range(rows)]
    graph = kp.KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=names)
    table = kp.Ranks.from_columns(
        head=range(rows),
        relation=[0] * rows,
        tail=[0] * rows,
        side=["tail"] * rows,
        rank=rng.integers(1, 50, rows),
        candidates=[50] * rows,
    )
    lineup = line_up({"mine": table})
    whole = payload(lineup, About(graph=graph)).packed
    assert unpack(whole)[0]["exact"]
    monkeypatch.setattr(module, "MOST_BYTES", len(whole) // 2)
    monkeypatch.setattr("kgprobe.report.page.compression.MOST_SAMPLED", rows)
    less = payload(lineup, About(graph=graph)).packed
    assert len(less) <= len(whole) // 2
    assert not unpack(less)[0]["exact"]


def test_hostile_texts_stay_inside_the_packed_header() -> None:
    evil = "</script><script>alert(1)</script>\u202e\U0001f608\"'&"
    tables = {evil: made_up(models=1)["model 0"]}
    packed = payload(line_up(tables), About(title=evil, files={evil: evil}, notes=[evil])).packed
    header, _ = unpack(packed)
    assert header["models"][0]["name"] == header["title"] == evil
    assert header["models"][0]["file"] == evil.rpartition("/")[2]
    assert json.loads(json.dumps(header)) == header


def test_a_file_that_says_nothing_of_itself_says_so() -> None:
    (table,) = made_up(models=1).values()
    said = dict(protocol([table.with_info(kgprobe="")]))
    assert {key for key, text in said.items() if text == "not recorded"} == {
        "graph",
        "graph hash",
        "split",
        "filtered by",
        "filter hash",
        "candidate set",
        "ranked with",
    }


def test_what_a_file_says_is_shown_with_its_settings_and_seeds() -> None:
    info = RanksInfo(
        graph="umls",
        graph_hash="abc",
        split="test",
        filtered=(),
        filter_hash="def",
        candidates=CandidatesInfo(Basis.given, "negatives.npz"),
        settings={"p": 2, "a": "<b>"},
    )
    run = kp.Ranks.from_columns(
        head=[0, 0],
        relation=[0, 0],
        tail=[1, 1],
        side=["head", "tail"],
        rank=[1.5, 2],
        ties=[1, 0],
        candidates=[9, 9],
        info=info,
    )
    both = kp.merge_seeds({4: run, 7: run})
    said = protocol(line_up({"mine": both}).runs["mine"])
    assert said == [
        ("graph", "umls"),
        ("graph hash", "abc"),
        ("split", "test"),
        ("filtered by", "nothing"),
        ("filter hash", "def"),
        ("candidate set", "negatives.npz, given"),
        ("ranked with", f"kgprobe {package_version()}"),
        ("a", "<b>"),
        ("p", "2"),
        ("seeds", "4, 7"),
        ("queries", "2"),
        ("candidates", "9"),
        ("ties", "ties get their mean rank; 50.00% of the ranks are tied"),
    ]


def test_a_popularity_that_is_always_0_is_not_called_missing() -> None:
    tables = made_up(rows=10)
    tables["model 1"] = with_columns(tables["model 1"], relation_popularity=np.zeros(10))
    assert remarks(line_up(tables), weighted=False) == [
        "The relation popularity of all targets is recorded as 0 for model 1, so queries cannot be weighted by it."
    ]


def test_nothing_is_remarked_where_all_is_well() -> None:
    assert remarks(line_up(made_up()), weighted=True) == []
