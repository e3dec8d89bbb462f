"""What each of the six properties means, precisely enough to be refuted by numbers."""

from __future__ import annotations

from enum import StrEnum


class Property(StrEnum):
    """The six properties in the paper's order, each with the definition that is tested.

    A property speaks of the metric as a user sees it: of the value of small rank tables. Where the paper's sentence
    contradicts itself or its other properties, the nearest one that does not is tested, and the literal one beside it.

    Example:
        >>> [str(p) for p in Property][:2]
        ['fixed optimum', 'fixed pessimum']
    """

    fixed_optimum = "fixed optimum"
    """When every target is first, the value is the same, whatever the numbers of candidates (all above 1)."""

    fixed_pessimum = "fixed pessimum"
    """When every target is last, the value is the same, whatever the numbers of candidates (all above 1)."""

    anti_monotone = "anti-monotonicity"
    """A worse rank among equally many candidates gives a strictly lower value, for a query alone and beside others."""

    candidate_size = "candidate-size awareness"
    """The same rank among more candidates gives a strictly higher value: for a query alone, and where two queries
    share a table, one of them first and the other at rank r > 1 of its candidates, when it is the larger set in which
    r was reached. Literally this includes rank 1, which contradicts the fixed optimum."""

    sharpness = "sharpness awareness"
    """There is a parameter, no two values of which give a rank 1 < r < E the same score. Literally this includes the
    first and the last rank, which contradicts the fixed optimum and the fixed pessimum."""

    popularity = "popularity awareness"
    """For some value of the parameters the popularity of the targets changes the value while all ranks stay.
    Literally the weight is proportional to popularity, so that whatever a popular target does must count more."""

    @property
    def short(self) -> str:
        """One word for a column.

        Example:
            >>> Property.candidate_size.short
            'size'
        """
        return _SHORT[self]

    @property
    def literally(self) -> str:
        """How the paper's own sentence goes further than the definition that is tested; empty where it does not.

        Example:
            >>> Property.candidate_size.literally, Property.fixed_optimum.literally
            ('for rank 1 too', '')
        """
        return _LITERALLY.get(self, "")


_SHORT = dict(zip(Property, ("optimum", "pessimum", "anti-monotone", "size", "sharpness", "popularity"), strict=True))
_LITERALLY = {
    Property.candidate_size: "for rank 1 too",
    Property.sharpness: "for the first and the last rank too",
    Property.popularity: "as a weight that grows with popularity",
}
