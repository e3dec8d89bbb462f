import torch

from kgprobe.predict.sources.pykeen.working_memory import bytes_made


def test_every_tensor_on_the_way_counts():
    a, b = torch.ones(10, 1), torch.ones(1, 7)
    assert bytes_made(lambda: (a + b).exp()) == 2 * 10 * 7 * 4
    assert bytes_made(lambda: None) == 0


def test_results_of_several_tensors():
    assert bytes_made(lambda: torch.max(torch.ones(3, 5, dtype=torch.float64), dim=1)) == 3 * 5 * 8 + 3 * 8 + 3 * 8


def test_what_went_before_does_not_count():
    held = torch.ones(1000)
    assert bytes_made(lambda: held.sum()) == 4
    assert bytes_made(lambda: held.sum()) == 4
