"""All input kinds."""

from fuzz import graph_kinds, rank_kinds

KINDS = {kind.name: kind for kind in (*rank_kinds.KINDS, *graph_kinds.KINDS)}
