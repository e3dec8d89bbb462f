import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kgprobe as kp
from clustered import lineup, model
from kgprobe.comparison import line_up, named_files
from kgprobe.comparison.lineup import grouped, whole
from kgprobe.decision import decide, decision_map
from kgprobe.errors import DataError, UsageError
from kgprobe.graph import load_graph
from kgprobe.metrics import scores
from kgprobe.ranks import RankFile, Ranks, concatenate
from kgprobe.report import compare
from support import take

BY = [["relation"], ["side", "kind"], ["entity_popularity:3"], ["popularity:11"]]


@pytest.mark.parametrize("by", [[], *BY], ids=" ".join)
def test_groups_are_those_of_eval_in_the_same_order(by):
    given = lineup(60, 1)
    found = grouped(given, by, given.clusters()).groups
    expected = scores(given.first, ["MRR"], by=by)
    assert [group.name for group in found] == [score.group for score in expected]
    rows = [np.arange(120)[group.queries] for group in found]
    assert [len(own) for own in rows] == [score.queries for score in expected]
    assert sorted(np.concatenate(rows)) == list(range(120))


@pytest.mark.parametrize("by", [[], *BY], ids=" ".join)
def test_cells_are_the_clusters_of_a_group(by):
    given = lineup(60, 1)
    clusters = given.clusters()
    found = grouped(given, by, clusters)
    ends = [(group.cells.start, group.cells.stop) for group in found.groups]
    assert [end for _, end in ends] == [*(start for start, _ in ends[1:]), found.clusters.count]
    for group in found.groups:
        cells, own = found.clusters.codes[group.queries], clusters.codes[group.queries]
        assert set(cells) == set(range(group.cells.start, group.cells.stop))
        _, in_order = np.unique(own, return_inverse=True)
        assert (cells - group.cells.start == in_order).all()


def test_no_group_is_the_whole():
    given = lineup(10, 1)
    clusters = given.clusters()
    found = whole(clusters)
    assert found.clusters is clusters
    assert found.groups[0].name == {}


@pytest.mark.parametrize("by", ["rank:3", "seed"])
def test_what_belongs_to_a_model_is_no_group_of_queries(by):
    given = lineup(5, 1, runs=2)
    with pytest.raises(UsageError, match="differ between models"):
        grouped(given, [by], given.clusters())


def query(ranks):
    return list(zip(ranks.head, ranks.relation, ranks.tail, ranks.predicts_tail, strict=True))


@settings(max_examples=20)
@given(st.integers(0, 10**6))
def test_models_are_put_in_the_same_order_of_queries(seed):
    rng = np.random.default_rng(seed)
    one = model(12, 1)
    other = take(model(12, 2), rng.permutation(24).tolist())
    both = line_up({"one": one, "other": other})
    assert query(both.runs["one"][0]) == query(both.runs["other"][0]) == query(one)
    expected = dict(zip(query(other), other.rank, strict=True))
    assert both.runs["other"][0].rank.tolist() == [expected[q] for q in query(one)]
    assert both.left_out == {"one": 0, "other": 0}


def test_files_and_paths_are_read(tmp_path):
    path = tmp_path / "ranks.parquet"
    model(6, 1).write(path)
    given = line_up({"table": model(6, 1), "path": path, "text": str(path), "file": RankFile(path)})
    assert len({tuple(given.runs[name][0].rank.tolist()) for name in given.models}) == 1


@pytest.mark.parametrize("ask", [line_up, compare, decision_map, lambda tables: decide(tables, 1, 0)])
@pytest.mark.parametrize("wrong", [None, 5, [5, model(6, 1)], {"mine": None}, {1: model(6, 1)}], ids=range(5))
def test_what_is_no_models_is_refused(ask, wrong):
    with pytest.raises(UsageError, match="`ranks` must be rank tables"):
        ask(wrong)


def test_what_is_no_graph_is_refused():
    for ask in (line_up, compare, decision_map):
        with pytest.raises(DataError, match="none-such: no such graph"):
            ask({"mine": model(6, 1)}, graph="none-such")
        with pytest.raises(UsageError, match="`graph` is a list"):
            ask({"mine": model(6, 1)}, graph=[[0, 0, 1]])


def test_seeds_are_told_apart_in_ascending_order():
    table = model(6, 1, runs=3)
    shuffled = take(table, np.random.default_rng(0).permutation(len(table)).tolist())
    runs = line_up({"mine": shuffled}).runs["mine"]
    assert [int(run.seed[0]) for run in runs] == [0, 1, 2]
    for seed, run in enumerate(runs):
        expected = table.filter(table.seed == seed)
        assert dict(zip(query(run), run.rank, strict=True)) == dict(zip(query(expected), expected.rank, strict=True))


def test_other_queries_are_refused_with_their_numbers():
    one, other = model(6, 1), take(model(6, 2), range(2, 12))
    with pytest.raises(DataError) as refused:
        line_up({"one": one, "other": other})
    assert "one: 12 queries, 2 of them not in all" in refused.value.problems
    assert "other: 10 queries, 0 of them not in all" in refused.value.problems


def test_a_seed_with_other_queries_is_named():
    table = model(4, 1, runs=2)
    with pytest.raises(DataError) as refused:
        line_up({"mine": take(table, range(15))})
    assert any("mine, seed 1: 7 queries" in problem for problem in refused.value.problems)


def test_common_queries_are_kept_on_request():
    one, other = take(model(6, 1), range(10)), take(model(6, 2), range(11, 3, -1))
    shared = line_up({"one": one, "other": other}, common=True)
    assert query(shared.runs["one"][0]) == query(shared.runs["other"][0]) == query(one)[4:]
    assert shared.left_out == {"one": 4, "other": 2}


def test_no_common_query_and_no_query_and_no_model_are_refused():
    table = model(4, 1)
    with pytest.raises(DataError, match="no query in common"):
        line_up({"one": take(table, [0, 1]), "other": take(table, [2, 3])}, common=True)
    with pytest.raises(DataError, match="no query to compare"):
        line_up({"one": take(table, [])})
    with pytest.raises(UsageError, match="no model"):
        line_up({})


def test_rank_intervals_are_refused():
    columns = {"head": [0], "relation": [0], "tail": [1], "side": ["tail"], "candidates": [9]}
    with pytest.raises(DataError, match="intervals"):
        line_up({"one": Ranks.from_columns(rank=[2], worst_rank=[5], **columns)})


def test_the_graph_gives_popularity():
    graph = load_graph("family-tree")
    triples = graph.triples("test")[:5]
    ranks = Ranks.from_columns(
        head=triples[:, 0],
        relation=triples[:, 1],
        tail=triples[:, 2],
        side=["tail"] * 5,
        rank=[1] * 5,
        candidates=[9] * 5,
    )
    attached = line_up({"mine": ranks}, graph=graph).first
    assert attached.numbers("entity_popularity").tolist() == graph.popularity.entity(triples[:, 2]).tolist()


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("triple", lambda r: list(zip(r.head, r.relation, r.tail, strict=True))),
        ("relation", lambda r: r.relation.tolist()),
        ("entity", lambda r: r.target.tolist()),
        ("query", query),
    ],
)
def test_clusters_hold_what_shares_a_key(by, key):
    ranks = concatenate([model(9, 1)])
    clusters = line_up({"one": ranks}).clusters(by)
    keys = key(ranks)
    same = np.array([[a == b for a in keys] for b in keys])
    assert (np.equal.outer(clusters.codes, clusters.codes) == same).all()
    assert sorted(set(clusters.codes.tolist())) == list(range(clusters.count))


@pytest.mark.parametrize("by", ["triple", "relation", "entity", "query"])
def test_the_number_of_a_cluster_does_not_hang_on_the_order_of_rows(by):
    ranks = model(20, 1)
    order = np.random.default_rng(3).permutation(40)
    there = line_up({"one": ranks}).clusters(by)
    here = line_up({"one": take(ranks, order.tolist())}).clusters(by)
    assert (here.codes == there.codes[order]).all()


def test_an_unknown_cluster_is_refused():
    with pytest.raises(UsageError, match="unknown cluster 'planet'"):
        line_up({"one": model(2, 1)}).clusters("planet")


def test_files_are_named_by_model_or_path(tmp_path):
    plain, first, second = (tmp_path / f"{name}.parquet" for name in ("plain", "a", "b"))
    model(2, 1).write(plain)
    for path in (first, second):
        model(2, 1).with_info(model="mine").write(path)
    assert list(named_files([RankFile(plain), RankFile(first)])) == ["plain", "mine"]
    assert list(named_files([RankFile(path) for path in (plain, first, second)])) == ["plain", str(first), str(second)]
    with pytest.raises(UsageError, match="given twice"):
        named_files([RankFile(plain), RankFile(plain)])


@pytest.mark.parametrize("largest", [5, 10**9, 2**40], ids=["one key", "one large key", "no single key"])
@pytest.mark.parametrize("by", ["triple", "relation", "entity", "query"])
def test_clusters_are_numbered_by_their_columns_from_the_last(by, largest):
    rng = np.random.default_rng(2)
    rows = np.unique(rng.integers(0, 5, (200, 4)) % [5, 3, 5, 2], axis=0)
    rng.shuffle(rows)
    head, relation, tail = rows[:, 0] * (largest // 5), rows[:, 1], rows[:, 2] * (largest // 5)
    side = np.where(rows[:, 3], "tail", "head")
    ones = np.ones(len(rows), dtype=np.int64)
    ranks = Ranks.from_columns(head=head, relation=relation, tail=tail, side=side, rank=ones, candidates=ones)
    target = np.where(rows[:, 3], tail, head)
    keys = {
        "triple": list(zip(tail, relation, head, strict=True)),
        "relation": [(r,) for r in relation],
        "entity": [(t,) for t in target],
        "query": list(zip(rows[:, 3], tail, relation, head, strict=True)),
    }[by]
    ordered = sorted(set(keys))
    found = line_up({"mine": ranks}).clusters(by)
    assert found.count == len(ordered)
    assert found.codes.tolist() == [ordered.index(key) for key in keys]


def test_a_list_has_the_names_of_the_command_line(tmp_path):
    one, two, three = tmp_path / "one.parquet", tmp_path / "two.parquet", tmp_path / "three.parquet"
    model(6, 1).write(one)
    for seed, path in enumerate((two, three)):
        model(6, seed).with_info(model="same").write(path)
    given = line_up([one, str(two), RankFile(three), model(6, 3).with_info(model="table"), model(6, 4)])
    assert given.models == ("one", str(two), str(three), "table", "ranks")
    assert line_up(one).models == line_up((one,)).models == ("one",)
    assert given.runs["one"][0].rank.tolist() == model(6, 1).rank.tolist()
    with pytest.raises(UsageError, match="the same file is given twice"):
        line_up([one, str(one)])


def test_tables_of_one_name_are_told_apart():
    named = [model(6, seed).with_info(model="same") for seed in (1, 2)]
    assert line_up(named).models == ("same 1", "same 2")
    with pytest.raises(UsageError, match="no different names"):
        line_up([*named, model(6, 3).with_info(model="same 1")])


def test_every_function_takes_a_list_of_paths(tmp_path):
    paths = [tmp_path / f"{name}.parquet" for name in ("one", "other")]
    for seed, path in enumerate(paths):
        model(60, seed).write(path)
    tables = {path.stem: kp.read_ranks(path) for path in paths}
    few = {"replicates": 100, "permutations": 100}
    assert (
        compare(paths, "MRR", **few).to_rows()
        == compare({path.stem: RankFile(path) for path in paths}, ["MRR"], **few).to_rows()
    )
    assert decide(paths, 1, 0, **few).to_rows() == decide(tables, 1, 0, **few).to_rows()
    assert (
        decision_map(paths, betas=0, replicates=100).to_rows()
        == decision_map(tables, betas=0, replicates=100).to_rows()
    )
    assert kp.check(paths) == kp.check(tables)
    assert kp.check(paths[0]) == kp.check({"one": tables["one"]})
    for path in (paths[0], str(paths[0]), RankFile(paths[0])):
        assert kp.evaluate(path, "MRR") == kp.evaluate(tables["one"], ["MRR"])
        assert (kp.surface(path, betas=0) == kp.surface(tables["one"], betas=0)).all()
    for ask in (kp.evaluate, kp.scores, kp.surface):
        with pytest.raises(UsageError, match="`ranks` is a list"):
            ask(paths)
