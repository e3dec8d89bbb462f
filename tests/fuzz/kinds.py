"""All input kinds."""

from fuzz import command_kinds, graph_kinds, model_kinds, rank_kinds, run_kinds

KINDS = {kind.name: kind for kind in (*rank_kinds.KINDS, *graph_kinds.KINDS, *model_kinds.KINDS, *run_kinds.KINDS, *command_kinds.KINDS)}
