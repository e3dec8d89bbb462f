"""Step 1 in one call: any model, any setting."""

import hashlib
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kgprobe
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph, TrainCounts
from kgprobe.predict import Dot, GroupNorm, Model, Setting, rank, rank_in
from kgprobe.predict.tasks import QueryCandidates, RelationCandidates
from kgprobe.ranks import Basis, CandidatesInfo, SampleInfo, validate
from kgprobe.resources import Resources
from ranking import Rows, brute_force, graph_of, matrix, query_sets, relation_sets, rows_of, vectors

GRAPH = graph_of(seed=41)

MODELS = {"vectors": lambda: vectors("whole", GroupNorm(2), GRAPH, 6, seed=0), "scores": lambda: matrix(GRAPH, seed=0)}


def expected(model: Any, triples: list[list[int]], filtered: tuple[str, ...], allowed: Any = None) -> Rows:
    """The brute force for any triples: they take the place of the test triples, which may still be filtered."""
    splits = {split: GRAPH.triples(split) for split in ("train", "valid", "test")}
    known = np.concatenate([splits[split] for split in filtered] or [np.empty((0, 3), int)])
    other = KnowledgeGraph.from_triples(
        train=known, test=triples, num_entities=GRAPH.num_entities, num_relations=GRAPH.num_relations
    )
    return brute_force(model, other, ("train",), allowed)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("split", "filtered"), [("train", ("train",)), ("valid", ("train", "valid")), ("test", ("train", "valid", "test"))]
)
def test_splits_and_their_filters(kind: str, split: str, filtered: tuple[str, ...]) -> None:
    model = MODELS[kind]()
    ranks = rank(model, GRAPH, split=split)
    assert rows_of(ranks) == expected(model, GRAPH.triples(split).tolist(), filtered)
    assert (ranks.info.split, ranks.info.filtered) == (split, filtered)


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize(
    ("wanted", "filtered"),
    [
        ("none", ()),
        ("train", ("train",)),
        ("test+train", ("train", "test")),
        (["valid"], ("valid",)),
        ("all", ("train", "valid", "test")),
    ],
    ids=str,
)
def test_filters(kind: str, wanted: Any, filtered: tuple[str, ...]) -> None:
    model = MODELS[kind]()
    ranks = rank(model, GRAPH, filter=wanted)
    assert rows_of(ranks) == brute_force(model, GRAPH, filtered)
    assert ranks.info.filtered == filtered
    assert (ranks.info.filter_hash is None) == (not filtered)


def test_a_file_of_triples_is_filtered_too(tmp_path: Path) -> None:
    path = tmp_path / "more2id.txt"
    extra = [[h, r, e] for h, r, t in GRAPH.triples("test").tolist()[:4] for e in range(5) if e != t]
    path.write_text(f"{len(extra)}\n" + "".join(f"{h} {t} {r}\n" for h, r, t in extra), encoding="utf-8")
    other = KnowledgeGraph.from_triples(
        train=extra, test=GRAPH.triples("test"), num_entities=GRAPH.num_entities, num_relations=GRAPH.num_relations
    )
    for model in (make() for make in MODELS.values()):
        assert rows_of(rank(model, GRAPH, filter=path)) == brute_force(model, other, ("train",))
        assert rank(model, GRAPH, filter=["test", path]).info.filtered == ("test", "more2id.txt")


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("sides", ["head", "tail"])
def test_one_side(kind: str, sides: str) -> None:
    model = MODELS[kind]()
    found = rows_of(rank(model, GRAPH, sides=sides))
    assert found == {key: row for key, row in brute_force(model, GRAPH).items() if key[3] == sides}


@pytest.mark.parametrize("kind", MODELS)
def test_a_subset_of_the_facts_in_any_order(kind: str, tmp_path: Path) -> None:
    model = MODELS[kind]()
    triples = GRAPH.triples("test")[[7, 2, 11, 2, 0]]
    path = tmp_path / "facts2id.txt"
    path.write_text("5\n" + "".join(f"{h} {t} {r}\n" for h, r, t in triples), encoding="utf-8")
    for given in (triples, triples.tolist(), path, str(path)):
        ranks = rank(model, GRAPH, triples=given)
        assert rows_of(ranks) == expected(model, triples.tolist(), ("train", "valid", "test"))
        assert ranks.head.tolist() == [*triples[[0, 1, 2, 4], 0]] * 2
        assert (ranks.info.split, ranks.info.settings["repeated"]) == (None, 1)


@pytest.mark.parametrize("kind", MODELS)
def test_no_facts_are_no_rows(kind: str) -> None:
    ranks = rank(MODELS[kind](), GRAPH, triples=np.empty((0, 3), dtype=int))
    assert len(ranks) == 0
    assert ranks.info.model in ("Vectors", "Matrix")


def test_rows_come_in_the_order_of_the_facts() -> None:
    ranks = rank(matrix(GRAPH, 0), GRAPH)
    test = list(dict.fromkeys(map(tuple, GRAPH.triples("test").tolist())))
    assert list(zip(ranks.head, ranks.relation, ranks.tail, strict=True)) == test * 2
    assert ranks.column("side").to_pylist() == ["tail"] * len(test) + ["head"] * len(test)


@pytest.mark.parametrize("kind", MODELS)
def test_candidate_sets(kind: str) -> None:
    model, ranked = MODELS[kind](), Setting.build(GRAPH).ranked
    for sets, allowed in (relation_sets(GRAPH, seed=1), query_sets(ranked, GRAPH.num_entities, seed=1)):
        ranks = rank(model, GRAPH, candidates=sets, filter="train", resources=Resources(shards=3))
        assert rows_of(ranks) == brute_force(model, GRAPH, ("train",), allowed)
        sampled = isinstance(sets, QueryCandidates)
        sample = {"hash": sets.hash, "sample": SampleInfo(5)} if sampled else {}
        assert ranks.info.candidates == CandidatesInfo(Basis.given, "drawn", **sample)


@pytest.mark.parametrize("kind", MODELS)
def test_candidates_in_files(kind: str, tmp_path: Path) -> None:
    model, ranked = MODELS[kind](), Setting.build(GRAPH).ranked
    sets, allowed = query_sets(ranked, GRAPH.num_entities, seed=2)
    np.savez(tmp_path / "drawn.npz", **sets.lists)
    assert rows_of(rank(model, GRAPH, candidates=tmp_path / "drawn.npz")) == brute_force(model, GRAPH, allowed=allowed)
    typed, allowed = relation_sets(GRAPH, seed=2)
    lines = [f"{r}\t{side}\t{e}\n" for side in ("head", "tail") for r in range(3) for e in typed.ids(side, r)]
    (tmp_path / "types.tsv").write_text("".join(lines), encoding="utf-8")
    found = rank(model, GRAPH, candidates=str(tmp_path / "types.tsv"))
    assert rows_of(found) == brute_force(model, GRAPH, allowed=allowed)


@pytest.mark.parametrize(
    "lists",
    [
        {"tail": np.zeros((35, 2), dtype=int)},
        {side: np.zeros((3, 2), dtype=int) for side in ("head", "tail")},
        {side: np.full((35, 2), 99) for side in ("head", "tail")},
        {side: np.full((35, 2), -1) for side in ("head", "tail")},
    ],
    ids=["a side is missing", "triples are missing", "no such entity", "a negative id"],
)
def test_candidate_sets_that_do_not_fit_are_refused(lists: Any) -> None:
    ranked = Setting.build(GRAPH).ranked
    assert len(ranked.given) == 35
    with pytest.raises((DataError, UsageError)):
        rank(matrix(GRAPH, 0), GRAPH, candidates=QueryCandidates("drawn", lists, ranked.rows))


def test_candidates_seen_in_training() -> None:
    train = GRAPH.triples("train").tolist()
    model = matrix(GRAPH, seed=3)

    def seen(triple: tuple[int, int, int], side: str) -> set[int]:
        return {t if side == "tail" else h for h, r, t in train if r == triple[1]}

    assert rows_of(rank(model, GRAPH, candidates="train")) == brute_force(model, GRAPH, allowed=seen)


def test_what_the_table_says_about_itself() -> None:
    ranks = rank(Model("mine", matrix(GRAPH, 0), {"dimension": 3}), GRAPH)
    info, test = ranks.info, GRAPH.triples("test").tolist()
    repeated = len(test) - len(set(map(tuple, test)))
    assert repeated >= 3
    assert (info.model, info.graph, info.graph_hash) == ("mine", GRAPH.name, GRAPH.content_hash)
    assert info.settings == {"dimension": 3, "sides": ["tail", "head"], "repeated": repeated}
    assert rank(matrix(GRAPH, 0), GRAPH, name="yours").info.model == "yours"
    assert rank(matrix(GRAPH, 0), GRAPH).info.model == "Matrix"


def test_the_table_is_valid_and_can_be_written(tmp_path: Path) -> None:
    ranks = rank(matrix(GRAPH, 0), GRAPH)
    ranks.write(tmp_path / "ranks.parquet")
    again = kgprobe.read_ranks(tmp_path / "ranks.parquet")
    assert again.to_arrow().equals(ranks.to_arrow(), check_metadata=True)
    validate(ranks, GRAPH)


def test_popularity_is_that_of_the_targets() -> None:
    ranks = rank(matrix(GRAPH, 0), GRAPH)
    train = GRAPH.triples("train").tolist()
    for target, relation, entity, both in zip(
        ranks.target.tolist(),
        ranks.relation.tolist(),
        ranks.numbers("entity_popularity"),
        ranks.numbers("relation_popularity"),
        strict=True,
    ):
        occurs = [r for h, r, t in train for e in (h, t) if e == target]
        assert entity == pytest.approx(len(occurs) / (2 * len(train)), rel=1e-15)
        assert both == pytest.approx(occurs.count(relation) / max(len(occurs), 1), rel=1e-15)


def test_without_training_there_is_no_popularity() -> None:
    for train in (None, []):
        graph = KnowledgeGraph.from_triples(train=train, test=[[0, 0, 1]], num_entities=3)
        ranks = rank(lambda side, given, relation: np.zeros((len(given), 3)), graph)
        assert "entity_popularity" not in ranks.column_names
        assert ranks.rank.tolist() == [2.0, 2.0]


def test_counts_of_training_are_enough_for_popularity() -> None:
    counts = TrainCounts.from_triples(GRAPH.triples("train"), GRAPH.num_entities, GRAPH.num_relations)
    graph = KnowledgeGraph(
        "counted", GRAPH.num_entities, GRAPH.num_relations, {"test": GRAPH.triples("test")}, train_counts=counts
    )
    with pytest.raises(DataError, match="the default filter cannot be built"):
        rank(matrix(GRAPH, 0), graph)
    found, whole = (rank(matrix(GRAPH, 0), known, filter="test") for known in (graph, GRAPH))
    for name in ("entity_popularity", "relation_popularity", "rank"):
        assert found.numbers(name).tolist() == whole.numbers(name).tolist()


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("candidates", ["all", "train"])
def test_watch_is_told_of_every_query(kind: str, shards: int, candidates: str) -> None:
    watched: list[float] = []
    resources = Resources(batch=4, shards=shards, threads=2)
    ranks = rank(MODELS[kind](), GRAPH, candidates=candidates, resources=resources, progress=watched.append)
    assert sum(watched) == pytest.approx(len(ranks))
    assert len(watched) > 4
    assert min(watched) > 0


class Enough(BaseException):
    pass


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("error", [Enough, KeyboardInterrupt])
def test_a_run_that_is_interrupted_ends_at_once(kind: str, after: int, error: type[BaseException]) -> None:
    calls: list[float] = []

    def progress(queries: float) -> None:
        calls.append(queries)
        if len(calls) > after:
            raise error

    before = set(threading.enumerate())
    with pytest.raises(error):
        rank(MODELS[kind](), GRAPH, resources=Resources(batch=2, threads=2), progress=progress)
    assert len(calls) == after + 1
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("method", ["score", "encode_queries", "candidates"])
def test_an_error_of_the_model_is_passed_on(method: str) -> None:
    model: Any = MODELS["scores" if method == "score" else "vectors"]()

    def fails(*args: Any) -> Any:
        raise Enough

    setattr(model, method, fails)
    before = set(threading.enumerate())
    with pytest.raises(Enough):
        rank(model, GRAPH, resources=Resources(threads=2))
    assert set(threading.enumerate()) <= before


def test_a_setting_is_built_once_for_many_models() -> None:
    setting = Setting.build(GRAPH, filter="train", sides="tail")
    for kind, make in MODELS.items():
        model = make()
        found = rank_in(setting, Model(kind, model), Resources(threads=1))
        same = rank(model, GRAPH, filter="train", sides="tail", name=kind)
        assert found.to_arrow().equals(same.to_arrow(), check_metadata=True)


def test_rank_is_a_public_name() -> None:
    assert kgprobe.rank is rank


TRAIN, VALID, TEST = [[0, 0, 1], [1, 1, 2]], [[2, 0, 0]], [[3, 1, 0], [0, 0, 2], [3, 1, 0]]


@pytest.fixture
def graph() -> KnowledgeGraph:
    return KnowledgeGraph.from_triples(train=TRAIN, valid=VALID, test=TEST, name="tiny")


def test_rows_are_the_facts_for_one_side_then_for_the_other(graph: KnowledgeGraph) -> None:
    columns = Setting.build(graph).columns()
    assert {name: values.tolist() for name, values in columns.items()} == {
        "head": [3, 0, 3, 0],
        "relation": [1, 0, 1, 0],
        "tail": [0, 2, 0, 2],
        "side": ["tail", "tail", "head", "head"],
    }


@pytest.mark.parametrize(("sides", "queries"), [("both", 4), ("head", 2), ("tail", 2)])
def test_sides(graph: KnowledgeGraph, sides: str, queries: int) -> None:
    setting = Setting.build(graph, sides=sides)
    assert setting.queries == queries
    columns = setting.columns()
    assert [len(values) for values in columns.values()] == [queries] * 4
    assert set(columns["side"].to_pylist()) == ({"head", "tail"} if sides == "both" else {sides})


@pytest.mark.parametrize(
    ("split", "filtered"), [("train", ("train",)), ("valid", ("train", "valid")), ("test", ("train", "valid", "test"))]
)
def test_what_a_file_says_about_itself(graph: KnowledgeGraph, split: str, filtered: tuple[str, ...]) -> None:
    setting = Setting.build(graph, split=split)
    info = setting.info("mine", {"dimension": 8})
    assert (info.model, info.graph, info.graph_hash, info.split) == ("mine", "tiny", graph.content_hash, split)
    assert (info.filtered, info.filter_hash) == (filtered, setting.known.hash)
    assert info.filter_hash is not None
    repeated = {"repeated": 1} if split == "test" else {}
    assert info.settings == {"dimension": 8, "sides": ["tail", "head"]} | repeated


def test_nothing_is_filtered(graph: KnowledgeGraph) -> None:
    info = Setting.build(graph, filter="none").info("mine", {})
    assert (info.filtered, info.filter_hash) == ((), None)


def test_other_facts_have_no_split(graph: KnowledgeGraph, tmp_path: Path) -> None:
    path = tmp_path / "facts2id.txt"
    path.write_text("1\n1 3 0\n", encoding="utf-8")
    for triples in ([[1, 0, 3]], np.array([[1, 0, 3]]), path, str(path)):
        setting = Setting.build(graph, triples=triples, sides="head")
        assert setting.split is None
        assert setting.info("mine", {}).split is None
        assert setting.columns()["tail"].tolist() == [3]
        assert setting.known.names == ("train", "valid", "test")


def test_candidates_are_described(graph: KnowledgeGraph, tmp_path: Path) -> None:
    assert Setting.build(graph).sets is None
    assert Setting.build(graph).info("mine", {}).candidates == CandidatesInfo(Basis.verified)
    setting = Setting.build(graph, candidates="train")
    assert isinstance(setting.sets, RelationCandidates)
    assert setting.info("mine", {}).candidates == CandidatesInfo(Basis.given, "train")
    path = tmp_path / "types.tsv"
    path.write_text("0\ttail\t3\n0\thead\t3\n", encoding="utf-8")
    for given in (path, str(path)):
        candidates = Setting.build(graph, candidates=given).info("mine", {}).candidates
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        assert candidates == CandidatesInfo(Basis.given, "types.tsv", digest)
    drawn = QueryCandidates("drawn", {"tail": np.zeros((3, 1), int), "head": np.zeros((3, 1), int)}, np.array([0, 1]))
    setting = Setting.build(graph, candidates=drawn)
    assert setting.sets is drawn
    assert setting.info("mine", {}).candidates == CandidatesInfo(Basis.given, "drawn", drawn.hash, sample=SampleInfo(1))


def test_tasks_cover_the_ranges(graph: KnowledgeGraph) -> None:
    setting = Setting.build(graph, candidates="train")
    queries = setting.ranked.queries("tail")
    tasks = setting.tasks(queries, [range(2), range(2, 4)])
    assert [task.entities for task in tasks] == [range(2), range(2, 4)]
    assert all(
        (task.queries, task.known, task.sets, task.graph) == (queries, setting.known, setting.sets, graph)
        for task in tasks
    )


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        ({"split": "tests"}, UsageError, "no split is called 'tests'"),
        ({"sides": "left"}, UsageError, "no side is called 'left'"),
        ({"filter": "tran"}, UsageError, "'tran' is neither a split nor a file"),
        ({"candidates": "trian"}, UsageError, "'trian' is neither a set of candidates nor a file"),
        ({"triples": [[0, 0, 9]]}, DataError, "these are not triples of tiny"),
    ],
    ids=["split", "sides", "filter", "candidates", "triples"],
)
def test_what_cannot_be_asked(
    graph: KnowledgeGraph, asked: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as raised:
        Setting.build(graph, **asked)  # type: ignore[arg-type]
    assert message in str(raised.value)


@pytest.mark.parametrize("device", ["torch:cpu,torch:cpu", "cpu, torch:cpu, cpu"])
def test_several_devices_share_the_entities(device: str) -> None:
    """Each takes ranges of entities in a thread. An encoder that reuses its memory is asked by one at a time."""
    graph = graph_of(seed=1, entities=90, facts=80)
    plain = vectors("mixed", Dot(), graph, 8, seed=3)
    wanted = brute_force(plain, graph)
    asked: list[str] = []

    class Reuses(type(plain)):  # type: ignore[misc]
        buffer = np.empty((0, 8), dtype=np.float32)

        def encode_queries(self, side: Any, given: Any, relation: Any) -> Any:
            asked.append(threading.current_thread().name)
            encoded = super().encode_queries(side, given, relation)
            Reuses.buffer = Reuses.buffer if len(Reuses.buffer) >= len(encoded) else np.empty_like(encoded)
            Reuses.buffer[: len(encoded)] = encoded
            return Reuses.buffer[: len(encoded)]

    model = Reuses(plain.similarity, plain.queries, plain.table)
    for shards in (1, 7):
        assert rows_of(rank(model, graph, resources=Resources(device=device, shards=shards))) == wanted
    assert len(set(asked)) > 1


def test_a_scorer_of_matrices_has_one_device() -> None:
    graph = graph_of(seed=1)
    model = matrix(graph, seed=2)
    resources = Resources(device="torch:cpu,cpu")
    assert rank(model, graph, resources=resources).to_arrow().equals(rank(model, graph).to_arrow())


@pytest.mark.parametrize("devices", ["cpu,no such device", "cpu,"])
def test_every_device_must_be_usable(devices: str) -> None:
    """Also where a scorer of matrices uses the first one alone: the name may be a mistake."""
    graph = graph_of(seed=1)
    with pytest.raises(UsageError, match="cannot be used"):
        rank(matrix(graph, seed=2), graph, resources=Resources(device=devices))


def test_a_usual_setting_is_kept_with_the_graph(tmp_path: Path) -> None:
    """Not one with a file, which may change."""
    graph, other = graph_of(seed=1), graph_of(seed=1)
    model = vectors("random", Dot(), graph, 4, seed=1)
    first = rank(model, graph)
    (kept,) = graph.derived.values()
    assert rank(model, graph).to_arrow().equals(first.to_arrow())
    assert [*graph.derived.values()] == [kept]
    file = tmp_path / "more.txt"
    for known in ("0 0 1\n", "0 0 1\n0 0 2\n0 1 3\n1 0 2\n2 1 0\n"):
        file.write_text(known.replace(" ", "\t"))
        found = rank(model, graph, filter=f"train+{file}")
        assert found.to_arrow().equals(rank(model, other, filter=f"train+{file}").to_arrow())
    assert rows_of(rank(model, graph, sides="tail")) == {
        query: row for query, row in rows_of(first).items() if query[3] == "tail"
    }
    assert {key[2] for key in graph.derived} == {"both", "tail"}


def test_a_setting_is_used_again_for_the_next_model() -> None:
    graph = graph_of(seed=1)
    setting = Setting.build(graph)
    for seed in (1, 2):
        model = vectors("random", Dot(), graph, 4, seed=seed)
        assert rows_of(rank_in(setting, Model("model", model), Resources())) == brute_force(model, graph)
    assert setting.ranked.queries("tail") is setting.ranked.queries("tail")
