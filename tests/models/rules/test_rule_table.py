import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from kgprobe.errors import DataError
from kgprobe.models.rules.paths import Adjacency
from kgprobe.models.rules.rule_table import Rules, rule_text
from rule_oracles import World, by_rule, worlds

NAMES = ["grandparent", "parent", "spouse"]


def table() -> Rules:
    bodies = [[1, 1, -1], [4, -1, -1], [1, 5, 1], [2, -1, -1]]
    numbers = np.array([[4.0, 8, 5, 10], [0, 0, 0, 0], [1, 2, 3, 4], [3, 3, 3, 3]]).T
    return Rules(3, np.int32([0, 1, 4, 0]), np.int32(bodies), *numbers)


@st.composite
def tables(draw: st.DrawFn, relations: int = 3) -> Rules:
    atom = st.integers(0, 2 * relations - 1)
    bodies = draw(st.lists(st.lists(atom, min_size=1, max_size=4), max_size=6))
    longest = max(map(len, bodies), default=1)
    heads = draw(st.lists(atom, min_size=len(bodies), max_size=len(bodies)))
    return Rules.from_bodies(relations, heads, [body + [-1] * (longest - len(body)) for body in bodies])


def test_shares_are_of_pairs_and_of_paths() -> None:
    assert table().confidence.tolist() == [0.5, 0, 0.5, 1]
    assert table().precision.tolist() == [0.5, 0, 0.75, 1]


def test_rules_are_chosen_by_place_by_mask_and_by_head() -> None:
    rules = table()
    assert rules.at([2, 0]).support.tolist() == [1, 4]
    assert rules.at(rules.length == 1).head.tolist() == [1, 0]
    assert rules.of(0).body.tolist() == [[1, 1, -1], [2, -1, -1]]
    assert len(rules.at([])) == len(rules.of(5)) == 0


def test_the_first_of_equal_rules_is_kept() -> None:
    known, shorter = table(), Rules.from_bodies(3, [0, 0], [[2], [1]])
    joined = known.joined(shorter)
    assert joined.body.tolist() == [*known.body.tolist(), [1, -1, -1]]
    assert joined.support.tolist() == [4, 0, 1, 3, 0]
    assert shorter.joined(known).support.tolist()[:2] == [0, 0]


@given(tables())
def test_joining_is_what_a_set_does(rules: Rules) -> None:
    joined = rules.joined(Rules.empty(3, length=2), rules)
    every = [(head, *(a for a in body if a >= 0)) for head, body in zip(rules.head, rules.body.tolist(), strict=True)]
    assert list(by_rule(joined)) == list(dict.fromkeys(every))


@given(tables())
def test_reversing_twice_changes_nothing(rules: Rules) -> None:
    again = rules.reversed().reversed()
    assert again.head.tolist() == rules.head.tolist()
    assert again.body.tolist() == rules.body.tolist()


def test_a_rule_is_reversed_atom_by_atom() -> None:
    assert by_rule(table().reversed()) == {
        (3, 4, 4): (4, 8, 5, 10),
        (4, 1): (0, 0, 0, 0),
        (1, 4, 2, 4): (1, 2, 3, 4),
        (3, 5): (3, 3, 3, 3),
    }


@given(tables())
def test_a_checkpoint_keeps_all(rules: Rules) -> None:
    kept = Rules.from_tensors(load(save(rules.tensors())))
    assert kept.relations == rules.relations
    for name in ("head", "body", "support", "pairs", "path_support", "paths"):
        assert getattr(kept, name).dtype == getattr(rules, name).dtype
        np.testing.assert_array_equal(getattr(kept, name), getattr(rules, name))


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ((0, 1, 1), "grandparent(x, y) <- parent(x, z), parent(z, y)"),
        ((2, 5), "spouse(x, y) <- spouse(y, x)"),
        ((0, 2, 4, 1, 5), "grandparent(x, y) <- spouse(x, z), parent(w, z), parent(w, v), spouse(y, v)"),
        ((3, 4, 4), "grandparent(x, y) <- parent(x, z), parent(z, y)"),
        ((5, 2), "spouse(x, y) <- spouse(y, x)"),
    ],
    ids=["along", "against", "four", "reverse head", "reverse symmetry"],
)
def test_a_rule_can_be_read(rule: tuple[int, ...], text: str) -> None:
    assert rule_text(Rules.from_bodies(3, [rule[0]], [rule[1:]]), 0, NAMES.__getitem__) == text


def test_variables_do_not_run_out() -> None:
    text = rule_text(Rules.from_bodies(1, [0], [[0] * 60]), 0, lambda _: "r")
    atoms = [atom[2:-1].split(", ") for atom in text.removeprefix("r(x, y) <- ").replace("), ", ");").split(";")]
    variables = [atom[0] for atom in atoms]
    assert len(set(variables)) == 60
    assert [atom[1] for atom in atoms] == [*variables[1:], "y"]


@given(worlds())
def test_a_matrix_holds_each_triple_once(world: World) -> None:
    adjacency = world.adjacency
    for relation in range(2 * world.relations):
        x, y = adjacency.pairs(relation)
        matrix = adjacency.of(relation).toarray()
        expected = np.zeros((world.entities, world.entities))
        for at in world.answers(relation):
            expected[at] = 1
        np.testing.assert_array_equal(matrix, expected)
        assert sorted(zip(x.tolist(), y.tolist(), strict=True)) == world.answers(relation)
        assert adjacency.reverse(adjacency.reverse(relation)) == relation


def test_a_graph_may_be_empty() -> None:
    assert Adjacency(np.empty((0, 3)), entities=2, relations=1).of(1).nnz == 0


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"relations": torch.zeros(2)}, "relations is not a number"),
        ({"body": torch.zeros(2, dtype=torch.int32)}, "body holds int32 values of shape (2,)"),
        ({"body": torch.zeros((3, 2), dtype=torch.int32)}, "body holds int32 values of shape (3, 2)"),
        ({"head": torch.tensor([0.0, 1.0])}, "head holds float32 values of shape (2,)"),
        ({"paths": torch.zeros(1)}, "paths holds float32 values of shape (1,)"),
        ({"head": torch.tensor([0, 4], dtype=torch.int32)}, "head names relations outside 0..3, such as 4"),
        ({"body": torch.tensor([[1, -2], [1, 3]], dtype=torch.int32)}, "body names relations outside 0..3, such as -2"),
        ({"paths": torch.tensor([1.0, float("nan")])}, "paths holds NaN or infinity"),
    ],
    ids=["relations", "flat", "rows", "type", "length", "head", "body", "no number"],
)
def test_tensors_that_are_not_those_of_rules(changes: dict[str, torch.Tensor], problem: str) -> None:
    tensors = Rules.from_bodies(2, [0, 0], [[1, -1], [1, 3]]).tensors()
    with pytest.raises(DataError) as caught:
        Rules.from_tensors(tensors | changes)
    assert caught.value.problems == [problem]


def test_tensors_that_are_missing_are_all_named() -> None:
    with pytest.raises(DataError) as caught:
        Rules.from_tensors({"relations": torch.tensor(2), "head": torch.zeros(1)})
    assert caught.value.problems == [
        f"{name} is missing" for name in ("body", "support", "pairs", "path_support", "paths")
    ]
