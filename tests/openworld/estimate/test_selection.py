import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from kgprobe import UsageError
from kgprobe.openworld.estimate.selection import Selection, check_odds

PLACES = np.array([0.01, 0.2, 0.5, 0.77, 0.99])
selections = st.builds(Selection, st.floats(0.01, 0.95), st.floats(0.02, 50))


@given(selections)
def test_the_share_comes_out_and_the_odds_are_the_ratio_of_its_ends(selection: Selection) -> None:
    share, _ = quad(lambda place: float(selection.chance(np.array(place))), 0, 1)
    assert share == pytest.approx(selection.missing, rel=1e-6)
    first, last = selection.chance(np.array([0.0, 1.0]))
    assert last / (1 - last) / (first / (1 - first)) == pytest.approx(selection.odds, rel=1e-6)


@given(selections)
def test_shares_before_a_place_are_integrals(selection: Selection) -> None:
    def chance(place: float) -> float:
        return float(selection.chance(np.array(place)))

    for place in PLACES:
        missing, known = quad(chance, 0, place)[0], quad(lambda at: 1 - chance(at), 0, place)[0]
        assert float(selection.missing_before(np.array(place))) == pytest.approx(missing / selection.missing, rel=1e-5)
        assert float(selection.known_before(np.array(place))) == pytest.approx(
            known / (1 - selection.missing), rel=1e-5
        )


@given(selections)
def test_a_known_answer_stands_for_all_at_its_place(selection: Selection) -> None:
    # Over the known ones, the weight averages 1, and weighted places are uniform: their mean is a half.
    def known(place: float) -> float:
        return (1 - float(selection.chance(np.array(place)))) / (1 - selection.missing)

    def weight(place: float) -> float:
        return float(selection.weight(np.array(place)))

    assert quad(lambda at: known(at) * weight(at), 0, 1)[0] == pytest.approx(1)
    assert quad(lambda at: known(at) * weight(at) * at, 0, 1)[0] == pytest.approx(0.5)


@given(st.floats(0.01, 0.95))
def test_without_odds_places_play_no_part(missing: float) -> None:
    alike = Selection(missing)
    np.testing.assert_allclose(alike.chance(PLACES), missing)
    np.testing.assert_allclose(alike.weight(PLACES), 1)
    np.testing.assert_allclose(alike.missing_before(PLACES), PLACES)
    np.testing.assert_allclose(alike.known_before(PLACES), PLACES)
    nearly = Selection(missing, 1 + 1e-6)
    np.testing.assert_allclose(nearly.missing_before(PLACES), PLACES, atol=1e-5)


@pytest.mark.parametrize("odds", [1e-200, 1e-9, 1e9, 1e200])
def test_extreme_odds_leave_numbers(odds: float) -> None:
    selection = Selection(0.4, odds)
    for values in (selection.known_before(PLACES), 1 - selection.known_before(PLACES), selection.weight(PLACES)):
        assert np.isfinite(np.log(values)).all()
    known_first = selection.known_before(np.array(0.5)) > 0.8
    assert bool(known_first) == (odds > 1)


@pytest.mark.parametrize("odds", [0.0, -1.0, float("nan"), float("inf")])
def test_odds_that_are_none_are_refused(odds: float) -> None:
    with pytest.raises(UsageError, match="the odds of missing answers are"):
        check_odds(odds)
