"""Read graph directories of NumPy arrays, which are memory-mapped: for graphs of hundreds of millions of triples."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

from kgprobe.arrays import triple_problems
from kgprobe.errors import DataError, shown
from kgprobe.graph.graph_directory import CONTENT_HASH, NEGATIVES, SIZES
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.parquet_graph import read_names
from kgprobe.graph.triple_sources import SPLITS
from kgprobe.json_files import read_json
from kgprobe.npy_files import map_npy

_NUMBERS = ("num_entities", "num_relations")

_REMEDY = (
    "triples are integer arrays [n, 3] (head, relation, tail) that numpy.save writes; "
    f'{SIZES} is {{"num_entities": 86054151, "num_relations": 14824}}'
)


def is_array_graph(directory: Path) -> bool:
    """Whether a directory has triples in .npy files."""
    return any((directory / f"{split}.npy").exists() for split in SPLITS)


def read_array_graph(directory: Path, name: str) -> KnowledgeGraph:
    """Read train, valid and test.npy (integers [n, 3]: head, relation, tail), or those of them that exist.

    Arrays of int32 in row-major order stay in their files and are memory-mapped; others are converted in memory.
    graph.json has the numbers of entities and relations, and perhaps the content hash of the graph, with which the
    triples are compared. entities.parquet and relations.parquet (id from 0 in order, label, name) are optional.
    valid_negatives.npy and test_negatives.npy hold triples that are known to be false.
    """
    problems: list[str] = []
    found = _sizes(directory / SIZES, problems)
    sizes = found.get(_NUMBERS[0]), found.get(_NUMBERS[1])
    triples: dict[str, dict[str, Any]] = {"": {}, NEGATIVES: {}}
    for (end, own), split in product(triples.items(), SPLITS):
        path = directory / f"{split}{end}.npy"
        if path.exists():
            try:
                own[split] = map_npy(path)
            except (OSError, ValueError) as error:
                problems.append(f"{path.name}: not a readable array ({str(error).removeprefix(f'{path.name}: ')})")
            else:
                problems += triple_problems(path.name, own[split], *sizes)
    names = {}
    for kind, size in zip(("entities", "relations"), sizes, strict=True):
        path = directory / f"{kind}.parquet"
        count, *names[kind] = read_names(path, problems) if path.exists() else (None, None, None)
        if size is not None and count is not None and count != size:
            problems.append(f"{path.name}: {count:,} rows, but {SIZES} says {size:,} {kind}")
    if problems or sizes[0] is None or sizes[1] is None:
        raise DataError(f"{directory}: not a graph in NumPy arrays", problems, _REMEDY)
    graph = KnowledgeGraph(
        name=name,
        num_entities=sizes[0],
        num_relations=sizes[1],
        splits=triples[""],
        entity_labels=names["entities"][0],
        relation_labels=names["relations"][0],
        entity_names=names["entities"][1],
        relation_names=names["relations"][1],
        negative_splits=triples[NEGATIVES],
    )
    if CONTENT_HASH in found and found[CONTENT_HASH] != graph.content_hash:
        problem = f"the triples are not those whose {CONTENT_HASH} {SIZES} records"
        raise DataError(f"{directory}: the graph is damaged", [problem], "write or copy it again")
    return graph


def _sizes(path: Path, problems: list[str]) -> dict[str, Any]:
    """The entries of graph.json; none, with every problem added to ``problems``, if they are not valid."""
    if not path.exists():
        problems.append(f"no {path.name}, so the numbers of entities and relations are unknown")
        return {}
    try:
        found = read_json(path, dict.fromkeys(_NUMBERS, int), hashless=lambda content: True)
    except DataError as error:
        problems += [f"{path.name}: {problem}" for problem in error.problems]
        return {}
    if not isinstance(found.get(CONTENT_HASH, ""), str):
        problems.append(f"{path.name}: {CONTENT_HASH} is {shown(found[CONTENT_HASH])}, and must be a text")
    return found
