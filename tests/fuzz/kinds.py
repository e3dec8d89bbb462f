"""All input kinds."""

from fuzz import (
    command_kinds,
    graph_kinds,
    json_table_kinds,
    list_kinds,
    model_kinds,
    name_kinds,
    pickle_kinds,
    rank_kinds,
    run_kinds,
    study_kinds,
)

_MODULES = (
    *(rank_kinds, json_table_kinds, graph_kinds, model_kinds, pickle_kinds),
    *(list_kinds, name_kinds, run_kinds, study_kinds, command_kinds),
)

KINDS = {kind.name: kind for module in _MODULES for kind in module.KINDS}
