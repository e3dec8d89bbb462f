"""The paper's claims about the open world, and those that replace them, each tried on a grid of settings."""

from __future__ import annotations

from kgprobe.openworld.theory.claims.claim import Claim
from kgprobe.openworld.theory.claims.equations import fixed_candidates, signs, slope_equation
from kgprobe.openworld.theory.claims.slopes import better_models, lemma, over_closed

__all__ = ["Claim", "check_claims"]


def check_claims() -> list[Claim]:
    """Try every claim, now.

    Example:
        >>> sorted({claim.holds for claim in check_claims()})
        ['in its model', 'no', 'yes']
    """
    return [*slope_equation(), *signs(), fixed_candidates(), *lemma(), *better_models(), *over_closed()]
