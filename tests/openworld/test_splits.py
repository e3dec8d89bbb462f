import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.stats import binom

from kgprobe.errors import DataError, UsageError
from kgprobe.graph import KnowledgeGraph
from kgprobe.graph.family_tree import family_tree
from kgprobe.openworld.splits import depths, rank_scores, split_world, tail_popularity
from kgprobe.openworld.world import PARTS, OpenWorld
from kgprobe.openworld.world_files import read_world
from kgprobe.openworld.world_ranks import rank_worlds
from kgprobe.openworld.world_tasks import all_task, tail_task
from kgprobe.predict import rank
from kgprobe.ranks import Ranks, merge_seeds
from kgprobe.resources import Resources
from support import take
from worlds import Dense, as_set, random_graph, random_world, rows


def test_popularity_counts_the_triples_of_the_tail() -> None:
    graph = random_graph()
    triples = graph.triples().tolist()
    expected = [sum((h == tail) + (t == tail) for h, _, t in triples) for _, _, tail in triples]
    assert tail_popularity(graph).tolist() == expected


def test_scores_are_minus_the_ranks_of_tails() -> None:
    graph = random_graph()
    ranks = rank("random", graph, resources=Resources(threads=1))
    found, by_row = rank_scores(ranks, graph), rows(ranks)
    test = as_set(graph.triples("test"))
    for triple, score in zip(map(tuple, graph.triples().tolist()), found, strict=True):
        if triple in test:
            assert score == -by_row[(*triple, "tail")][0]
        else:
            assert np.isnan(score)


def test_training_runs_are_averaged() -> None:
    graph = random_graph()
    one, two = (rank(Dense(np.random.default_rng(n).random((12, 3, 12))), graph, sides="tail") for n in (0, 1))
    merged = rank_scores(merge_seeds({0: one, 1: two}), graph)
    np.testing.assert_allclose(merged, (rank_scores(one, graph) + rank_scores(two, graph)) / 2)


def test_ranks_of_another_graph_are_refused() -> None:
    ranks = rank("random", random_graph(0))
    with pytest.raises(DataError, match="cannot score the triples") as caught:
        rank_scores(ranks, random_graph(1))
    assert "ranked triples are not in random" in caught.value.problems[0]


def test_ranks_without_tails_are_refused() -> None:
    graph = random_graph()
    with pytest.raises(DataError) as caught:
        rank_scores(rank("random", graph, sides="head"), graph)
    assert caught.value.problems == ["it has no tail queries"]
    with pytest.raises(DataError, match="cannot score the triples"):
        rank_scores(take(rank("random", graph), []), graph)


def test_what_a_model_ranks_low_can_be_hidden_from_it() -> None:
    graph, plain = random_graph(), random_world()
    model = Dense(np.random.default_rng(0).random((12, 3, 12)))
    ranks: Ranks = rank_worlds(model, plain, all_task(plain)).closed
    known: KnowledgeGraph = graph
    hidden = split_world(known, 0.6, 0.5, 0, rank_scores(ranks, graph), np.inf, valid=0.2)
    assert as_set(hidden.train) == as_set(plain.train)
    scores = {
        part: np.array([model.of(f, "tail", f[2]) for f in as_set(getattr(hidden, part))])
        for part in ("known", "missing")
    }
    assert scores["known"].mean() > scores["missing"].mean() + 0.1


DENSITIES = (0.65, 0.75, 0.85, 0.95)

PUBLISHED_FACTS = 192_532

"""All triples of the published family tree: its relations closed under the rules that they follow."""

FAR = 4.0

"""Standard deviations beyond which something is not by chance."""


@pytest.fixture(scope="module")
def families() -> KnowledgeGraph:
    return family_tree()


@pytest.fixture(scope="module")
def worlds(families: KnowledgeGraph) -> dict[float, OpenWorld]:
    return {density: split_world(families, density) for density in DENSITIES}


def parts_of(world: OpenWorld) -> dict[str, set[tuple[int, int, int]]]:
    return {part: as_set(getattr(world, part)) for part in PARTS}


@given(
    st.integers(0, 10**6),
    st.floats(0.01, 1),
    st.floats(0.01, 1),
    st.floats(0, 0.99),
    st.sampled_from([0.2, 1, 7, math.inf]),
)
def test_each_fact_is_in_one_part(seed: int, density: float, train: float, valid: float, odds: float) -> None:
    graph = random_graph(seed, facts=40)
    world = split_world(graph, density, train, seed, np.arange(40) % 7, odds, valid)
    parts = parts_of(world)
    assert set.union(*parts.values()) == as_set(graph.triples())
    assert sum(map(len, parts.values())) == 40
    assert (density < 1) or not parts["missing"]
    assert (train < 1) or not parts["known"]


@given(st.integers(0, 1000), st.randoms(use_true_random=False))
def test_the_order_of_the_triples_does_not_matter(seed: int, shuffler: random.Random) -> None:
    graph = random_graph(seed, facts=40)
    order = list(range(40))
    shuffler.shuffle(order)
    score, triples = np.random.default_rng(seed).integers(0, 5, 40), graph.triples()[order]
    shuffled = KnowledgeGraph.from_triples(triples[:3], None, triples[3:], "random", 12, 3)
    one, other = (split_world(g, 0.5, 0.5, seed, s, 3) for g, s in ((graph, score), (shuffled, score[order])))
    assert parts_of(one) == parts_of(other)
    assert one.graph.content_hash == other.graph.content_hash


def test_the_same_seed_gives_the_same_split_and_another_one_another() -> None:
    one, again, other = (split_world(random_graph(), seed=seed) for seed in (3, 3, 4))
    assert parts_of(one) == parts_of(again) != parts_of(other)
    assert one.settings == again.settings != other.settings


@pytest.mark.parametrize("odds", [0.1, 1.0, 9.0, math.inf])
def test_what_is_trained_on_does_not_depend_on_the_score_nor_on_the_selection(odds: float) -> None:
    plain = split_world(random_graph(), seed=5)
    scored = split_world(random_graph(), seed=5, score=np.arange(150), odds=odds, valid=0.3)
    assert as_set(plain.train) == as_set(scored.train) | as_set(scored.valid)


def test_repeated_triples_are_one() -> None:
    graph = KnowledgeGraph.from_triples(train=[[0, 0, 1], [0, 0, 1]], test=[[0, 0, 1], [1, 0, 0]])
    assert sum(split_world(graph).sizes.values()) == 2


def test_shares_are_those_asked_for(worlds: dict[float, OpenWorld]) -> None:
    for density, world in worlds.items():
        total = sum(world.sizes.values())
        expected = {"train": 0.7 * density, "valid": 0, "known": 0.3 * density, "missing": 1 - density}
        for part, share in expected.items():
            assert abs(world.sizes[part] - total * share) <= FAR * math.sqrt(total * share * (1 - share))


def test_selection_takes_its_share_of_what_is_trained_on(families: KnowledgeGraph) -> None:
    world = split_world(families, valid=0.2)
    learned = world.sizes["train"] + world.sizes["valid"]
    assert abs(world.sizes["valid"] - 0.2 * learned) <= FAR * math.sqrt(learned * 0.16)


@pytest.mark.parametrize("density", DENSITIES)
def test_the_published_split_has_the_same_share_of_training_triples(data: object, density: float) -> None:
    world = read_world(f"family_tree/density_{density * 100:.0f}")
    share = 0.7 * density
    deviation = math.sqrt(PUBLISHED_FACTS * share * (1 - share))
    assert abs(len(world.train) - PUBLISHED_FACTS * share) <= FAR * deviation


def counts(world: OpenWorld) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For each tail query that is ranked: its head, and how many answers are known, missing and trained on."""
    task = tail_task(world)
    asked = np.unique(np.concatenate([task.known, task.missing])[:, :2], axis=0)
    key = asked[:, 0] * world.num_relations + asked[:, 1]

    def count(triples: NDArray[np.int64]) -> NDArray[np.int64]:
        own = triples[:, 0] * world.num_relations + triples[:, 1]
        own = own[np.isin(own, key)]
        return np.bincount(np.searchsorted(key, own), minlength=len(key))

    return asked[:, 0], count(world.known), count(world.missing), count(world.train)


def standard_scores(world: OpenWorld, density: float) -> dict[str, float]:
    """How far answers per query are from what the rule of the split expects, in standard deviations.

    Given all answers of a query, the hard ones are binomial, cut off below the 10 that a query needs; given these, the
    known ones are binomial, cut off below 1.
    """
    _, known, missing, easy = counts(world)
    hard_chance, known_chance = 1 - 0.7 * density, 0.3 * density / (1 - 0.7 * density)
    found = {}
    for what, seen, size, chance, least in (
        ("hard", known + missing, known + missing + easy, hard_chance, 10),
        ("known", known, known + missing, known_chance, 1),
    ):
        outcome = np.arange(size.max() + 1)
        weight = binom.pmf(outcome, size[:, None], chance) * (outcome >= least)
        weight /= weight.sum(axis=1, keepdims=True)
        mean = weight @ outcome
        variance = weight @ outcome**2 - mean**2
        found[what] = float((seen - mean).sum() / math.sqrt(variance.sum()))
    return found


@pytest.mark.parametrize("density", DENSITIES)
def test_answers_per_query_follow_the_rule_of_the_split_as_the_published_ones_do(
    data: object, worlds: dict[float, OpenWorld], density: float
) -> None:
    published = read_world(f"family_tree/density_{density * 100:.0f}")
    for world in (worlds[density], published):
        assert all(abs(score) < FAR for score in standard_scores(world, density).values())


def mean_and_error(trees: NDArray[np.int32], amount: NDArray[np.int64]) -> tuple[float, float]:
    """The mean over queries, and its standard error where families are a sample: a ratio of sums over families."""
    size, total = np.bincount(trees), np.bincount(trees, amount)
    mean = total.sum() / size.sum()
    families = np.count_nonzero(size)
    spread = ((total - mean * size) ** 2).sum() * families / (families - 1)
    return float(mean), float(math.sqrt(spread) / size.sum())


@pytest.mark.parametrize("density", DENSITIES)
def test_generated_and_published_queries_have_as_many_answers(
    data: object, worlds: dict[float, OpenWorld], density: float
) -> None:
    means = []
    for world in (worlds[density], read_world(f"family_tree/density_{density * 100:.0f}")):
        head, known, missing, easy = counts(world)
        links = coo_matrix((np.ones(len(world.train)), world.train[:, [0, 2]].T), shape=[world.num_entities] * 2)
        tree = connected_components(links)[1][head]
        means.append([mean_and_error(tree, amount) for amount in (known + missing, known, easy)])
    for (ours, our_error), (theirs, their_error) in zip(*means, strict=True):
        assert abs(ours - theirs) < FAR * math.hypot(our_error, their_error)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_depth_is_the_mean_place_by_score(triples: list[tuple[int, int]]) -> None:
    triples = sorted(triples, key=lambda triple: triple[0])
    queries = np.unique([query for query, _ in triples], return_inverse=True)[1]
    found = depths(queries, np.array([score for _, score in triples], dtype=float))
    for (query, score), depth in zip(triples, found, strict=True):
        own = [other for asked, other in triples if asked == query]
        above, equal = sum(other > score for other in own), sum(other == score for other in own)
        expected = (above + (equal - 1) / 2) / (len(own) - 1) if len(own) > 1 else 0.5
        assert depth == pytest.approx(expected)


@pytest.mark.parametrize("odds", [0.25, 4.0, 30.0])
def test_odds_are_those_of_the_lowest_over_those_of_the_highest(families: KnowledgeGraph, odds: float) -> None:
    score = np.random.default_rng(1).random(len(families.triples()))
    world = split_world(families, score=score, odds=odds)
    hard, rate = world.sizes["known"] + world.sizes["missing"], 0.25 / 0.475
    assert abs(world.sizes["missing"] - hard * rate) <= FAR * math.sqrt(hard * rate * (1 - rate))
    by_fact = dict(zip(map(tuple, families.triples().tolist()), score.tolist(), strict=True))
    queries: dict[tuple[int, int], list[tuple[float, bool]]] = {}
    for part in ("known", "missing"):
        for head, relation, tail in getattr(world, part).tolist():
            queries.setdefault((head, relation), []).append((by_fact[head, relation, tail], part == "missing"))
    many = [sorted(answers) for answers in queries.values() if len(answers) > 1]
    table = np.array(
        [[sum(query[end][1] is is_missing for query in many) for is_missing in (True, False)] for end in (0, -1)]
    )
    log_odds = np.log(table[0, 0] / table[0, 1] * table[1, 1] / table[1, 0])
    assert abs(log_odds - math.log(odds)) <= FAR * math.sqrt((1 / table).sum())


@given(st.integers(0, 1000))
def test_infinite_odds_hide_the_lowest_answers_as_many_as_at_random(seed: int) -> None:
    graph = random_graph(seed, facts=120, entities=8)
    score = np.random.default_rng(seed).integers(0, 4, 120)
    by_fact = dict(zip(map(tuple, graph.triples().tolist()), score.tolist(), strict=True))
    world, plain = (split_world(graph, 0.6, 0.5, seed, score, odds) for odds in (math.inf, 1.0))
    for head, relation in {(h, r) for h, r, _ in world.hard.tolist()}:

        def own(triples: NDArray[np.int64], query: tuple[int, int] = (head, relation)) -> list[int]:
            return [by_fact[triple] for triple in as_set(triples) if triple[:2] == query]

        known, missing = own(world.known), own(world.missing)
        assert len(missing) == len(own(plain.missing))
        assert max(missing, default=-1) <= min(known, default=9)


def test_odds_of_one_are_those_without_a_score() -> None:
    one, other = split_world(random_graph(), score=np.arange(150), odds=1), split_world(random_graph())
    assert parts_of(one) == parts_of(other)


def test_extreme_odds_come_near_to_infinite_ones() -> None:
    graph = random_graph(facts=400, entities=12)
    world = split_world(graph, 0.5, 0.1, score=np.arange(400), odds=1e12)
    by_fact = dict(zip(map(tuple, graph.triples().tolist()), range(400), strict=True))
    scores = {part: np.array([by_fact[f] for f in as_set(getattr(world, part))]) for part in ("known", "missing")}
    assert scores["missing"].mean() < scores["known"].mean() - 100


def test_everything_that_makes_no_sense_is_listed() -> None:
    with pytest.raises(UsageError) as caught:
        split_world(random_graph(), density=0, train_share=1.5, odds=-1, valid=1, seed=-1)
    assert [problem.split(" ")[0] for problem in caught.value.problems] == [
        "density",
        "train_share",
        "valid",
        "odds",
        "seed",
    ]


@pytest.mark.parametrize("number", [math.nan, -0.1, 1.01])
def test_a_density_is_a_share(number: float) -> None:
    with pytest.raises(UsageError, match="invalid settings of an open world"):
        split_world(random_graph(), density=number)


def test_odds_without_a_score_are_refused() -> None:
    with pytest.raises(UsageError) as caught:
        split_world(random_graph(), odds=2)
    assert caught.value.problems == ["odds is 2, which needs a score"]


@pytest.mark.parametrize("score", [np.zeros(149), np.zeros((150, 1)), ["a"] * 150], ids=["few", "table", "words"])
def test_a_score_is_a_number_for_each_triple(score: object) -> None:
    with pytest.raises(DataError) as caught:
        split_world(random_graph(), score=score)  # type: ignore[arg-type]
    assert "expected a number for each of 150 triples" in caught.value.problems[0]


def test_hard_triples_need_a_score_and_others_do_not() -> None:
    graph = random_graph()
    learned = as_set(split_world(graph).train)
    is_learned = np.array([tuple(triple) in learned for triple in graph.triples().tolist()])
    assert split_world(graph, score=np.where(is_learned, np.nan, 1.0), odds=2).sizes["train"] == len(learned)
    with pytest.raises(DataError, match=f"{(~is_learned).sum()} of {(~is_learned).sum()} hard triples have no score"):
        split_world(graph, score=np.where(is_learned, 1.0, np.nan), odds=2)


def test_a_graph_without_triples_cannot_be_split() -> None:
    with pytest.raises(DataError, match="no triples to split"):
        split_world(KnowledgeGraph.from_triples(train=[], num_entities=3, num_relations=1))


def test_counts_of_triples_are_not_triples(data: object) -> None:
    from kgprobe.graph import load_graph

    with pytest.raises(DataError, match="cannot be split"):
        split_world(load_graph("yago3-10"))


def test_names_say_what_was_split() -> None:
    world = split_world(random_graph(), 0.85)
    assert world.name == "random-0.85"
    assert world.settings["density"] == 0.85
    assert replace(world, name="mine").name == "mine"
