"""All input kinds."""

from fuzz import (
    block_kinds,
    command_kinds,
    graph_kinds,
    json_table_kinds,
    library_kinds,
    list_kinds,
    model_kinds,
    name_kinds,
    pbg_kinds,
    pickle_kinds,
    rank_kinds,
    run_kinds,
    study_kinds,
)

_MODULES = (
    *(rank_kinds, json_table_kinds, graph_kinds, model_kinds, library_kinds, pickle_kinds),
    *(pbg_kinds, list_kinds, name_kinds, run_kinds, study_kinds, command_kinds, block_kinds),
)

KINDS = {kind.name: kind for module in _MODULES for kind in module.KINDS}
