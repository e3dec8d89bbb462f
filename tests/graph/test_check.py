import numpy as np

from kgprobe.graph.check import id_problems, triple_problems


def test_good_ids_have_no_problem() -> None:
    assert id_problems("x", np.array([0, 4]), 5) == []
    assert id_problems("x", np.array([], dtype=int), 0) == []


def test_rows_of_bad_ids_are_named() -> None:
    (problem,) = id_problems("x", np.array([5, 0, -1, 7]), 5)
    assert "3 ids outside 0..4 in rows 0, 2-3" in problem
    assert "for example 5" in problem


def test_each_column_has_its_own_limit() -> None:
    problems = triple_problems("test", np.array([[9, 0, 1], [0, 1, 0]]), entities=3, relations=1)
    assert [problem.split(":")[0] for problem in problems] == ["test head", "test relation"]


def test_numbers_with_a_fraction_are_refused() -> None:
    assert "whole numbers" in triple_problems("test", np.zeros((1, 3)), 1, 1)[0]
