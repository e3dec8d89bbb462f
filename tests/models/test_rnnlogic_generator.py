"""The generator's probabilities are a distribution, its search finds the likeliest, and it learns what it is taught."""

from collections import Counter
from itertools import product

import pytest
import torch

from kgprobe.models.random_streams import RandomStreams
from kgprobe.models.rnnlogic_generator import Fitting, Generator, train_generator


def new_generator(relations: int = 3, seed: int = 0, scale: float = 4.0) -> Generator:
    generator = Generator(relations, dimension=4, hidden=6, streams=RandomStreams([seed], "cpu"))
    with torch.no_grad():
        for parameter in generator.parameters():
            parameter.mul_(scale)
    return generator


def every_body(relations: int, length: int) -> torch.Tensor:
    bodies = [
        [*body, *[-1] * (length - size)]
        for size in range(length + 1)
        for body in product(range(relations), repeat=size)
    ]
    return torch.tensor(bodies)


def test_a_body_has_the_product_of_what_its_relations_have() -> None:
    generator, head = new_generator(), torch.tensor([1])
    steps, state, total = [3, 2, 0], None, 0.0
    for token, expected in zip(steps, [2, 0, 3], strict=True):
        inputs = torch.cat([generator.token.weight[token], generator.head.weight[1]])
        output, state = generator.memory(inputs[None, None], state)
        total += generator.output(output[0, 0]).log_softmax(0)[expected].item()
    for body in ([[2, 0]], [[2, 0, -1]], [[2, 0, -1, -1]]):
        assert generator.log_probability(head, torch.tensor(body)).item() == pytest.approx(total, abs=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_wide_search_finds_the_likeliest_bodies(length: int) -> None:
    generator, bodies = new_generator(), every_body(3, length)[1:]
    wide = generator.beam_search(torch.tensor([0, 2]), 200, length)
    for head in (0, 2):
        own = wide.head == head
        likely = generator.log_probability(torch.full((len(bodies),), head), bodies)
        assert {tuple(body) for body in wide.body[own].tolist()} == {tuple(body) for body in bodies.tolist()}
        found = dict(zip(map(tuple, wide.body[own].tolist()), wide.log_probability[own].tolist(), strict=True))
        assert [found[tuple(body)] for body in bodies.tolist()] == pytest.approx(likely.tolist(), abs=1e-4)


def test_a_narrow_search_gives_different_bodies_of_every_head() -> None:
    generator = new_generator()
    narrow = generator.beam_search(torch.arange(3), 4, 3)
    rules = list(zip(narrow.head.tolist(), map(tuple, narrow.body.tolist()), strict=True))
    assert len(set(rules)) == len(rules)
    assert set(Counter(narrow.head.tolist())) == {0, 1, 2}
    likely = generator.log_probability(narrow.head, narrow.body)
    torch.testing.assert_close(likely, narrow.log_probability, atol=1e-4, rtol=1e-4)


def test_bodies_are_sampled_as_often_as_they_are_likely() -> None:
    generator, bodies, draws = new_generator(2), every_body(2, 2)[1:], 400
    likely = generator.log_probability(torch.ones(len(bodies), dtype=torch.int64), bodies).exp().tolist()
    streams, seen = RandomStreams([0], "cpu"), Counter()
    for _ in range(draws):
        drawn = generator.sample(torch.tensor([1]), 1, 2, streams)
        seen.update(map(tuple, drawn.body.tolist()))
    # The end at full length is not drawn: a body of full length is as likely as its beginning.
    full = {tuple(body) for body in bodies.tolist() if body[1] >= 0}
    for body, probability in zip(map(tuple, bodies.tolist()), likely, strict=True):
        if body not in full:
            assert seen[body] / draws == pytest.approx(probability, abs=0.08)
    assert all(count > 0 for count in seen.values())


def test_what_is_sampled_is_distinct_sensible_and_repeatable() -> None:
    generator = new_generator()
    first, second, other = (
        generator.sample(torch.arange(3), 50, 3, RandomStreams([seed], "cpu")) for seed in (0, 0, 1)
    )
    assert torch.equal(first.body, second.body)
    assert first.body.tolist() != other.body.tolist()
    rules = list(zip(first.head.tolist(), map(tuple, first.body.tolist()), strict=True))
    assert len(set(rules)) == len(rules)
    assert (first.body[:, 0] >= 0).all()
    ends = first.body < 0
    assert (ends[:, 1:] | ~ends[:, :-1]).all()
    likely = generator.log_probability(first.head, first.body)
    torch.testing.assert_close(likely, first.log_probability, atol=1e-4, rtol=1e-4)


def test_it_learns_rules_by_weight() -> None:
    generator = Generator(3, dimension=8, hidden=16, streams=RandomStreams([0], "cpu"))
    head = torch.tensor([0, 0, 0, 1])
    body = torch.tensor([[1, 2], [2, -1], [0, 0], [2, 2]])
    loss = train_generator(
        generator, head, body, torch.tensor([0.6, 0.3, 0.0, 0.1]), Fitting(300, 64, 0.01), RandomStreams([1], "cpu")
    )
    likely = generator.log_probability(head, body).exp().tolist()
    assert likely == pytest.approx([2 / 3, 1 / 3, 0, 1], abs=0.1)
    assert 0 < loss < 1
    assert generator.beam_search(torch.tensor([0]), 2, 2).body.tolist() == [[1, 2], [2, -1]]


def test_nothing_to_learn_changes_nothing() -> None:
    generator = Generator(2, dimension=2, hidden=3, streams=RandomStreams([0], "cpu"))
    before = [own.clone() for own in generator.parameters()]
    head, body = torch.tensor([0]), torch.tensor([[1]])
    assert (
        train_generator(generator, head[:0], body[:0], torch.zeros(0), Fitting(5, 4, 0.1), RandomStreams([0], "cpu"))
        == 0
    )
    assert train_generator(generator, head, body, torch.zeros(1), Fitting(5, 4, 0.1), RandomStreams([0], "cpu")) == 0
    assert all(torch.equal(one, other) for one, other in zip(before, generator.parameters(), strict=True))
