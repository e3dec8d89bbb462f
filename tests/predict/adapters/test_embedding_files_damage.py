"""Damaged embedding and score files: each is refused, or gives the very same numbers."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgprobe import rank
from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph
from kgprobe.predict.adapters.embedding_files import write_embeddings
from kgprobe.predict.adapters.opening import Opening, open_model
from kgprobe.predict.queries import RankedTriples

ENTITIES, RELATIONS = 300, 3  # each array is longer than the first block that zipfile reads
DRAW = np.random.default_rng(7)

GRAPH = KnowledgeGraph.from_triples(
    train=[[0, 0, 1], [2, 1, 3]],
    test=[[4, 0, 5], [6, 2, 7], [8, 1, 9]],
    num_entities=ENTITIES,
    num_relations=RELATIONS,
    entity_labels=[f"entity {i}" for i in range(ENTITIES)],
)
TRIPLES = GRAPH.triples("test")

EMBEDDINGS: dict[str, Any] = {
    "entity": DRAW.normal(size=(ENTITIES, 8)).astype(np.float32),
    "relation": DRAW.normal(size=(RELATIONS, 8)).astype(np.float32),
    "entity_bias": DRAW.normal(size=ENTITIES).astype(np.float32),
}
HEADER = {"model": "ComplEx", "name": "mine", "entities": [f"entity {i}" for i in reversed(range(ENTITIES))]}
QUERIES: dict[str, Any] = {
    "entity": DRAW.normal(size=(ENTITIES, 8)).astype(np.float32),
    "tail_query": DRAW.normal(size=(3, 8)),
    "head_query": DRAW.normal(size=(3, 8)).astype(np.float16),
    "triples": TRIPLES,
}
SCORES = {side: DRAW.normal(size=(3, ENTITIES)) for side in ("tail", "head")}


def _compressed(path: Path, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)


FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "npz": (".npz", lambda path: write_embeddings(path, HEADER, EMBEDDINGS)),
    "compressed npz": (".npz", lambda path: _compressed(path, HEADER, EMBEDDINGS)),
    "safetensors": (".safetensors", lambda path: write_embeddings(path, HEADER, EMBEDDINGS)),
    "safetensors of queries": (
        ".safetensors",
        lambda path: write_embeddings(path, {"similarity": "group_norm", "group_size": 2, "gamma": 1.5}, QUERIES),
    ),
    "scores npz": (".npz", lambda path: np.savez(path, **SCORES, triples=TRIPLES)),
    "compressed scores npz": (".npz", lambda path: np.savez_compressed(path, **SCORES)),
}


def _numbers(path: Path) -> list[Any]:
    """All that ranks depend on: the similarity, the embeddings or scores of all queries, and the model's name."""
    ranked = RankedTriples.build(GRAPH)
    model = open_model(path, Opening(GRAPH, ranked))
    scorer: Any = model.scorer
    asked = {"tail": TRIPLES[:, 0], "head": TRIPLES[:, 2]}
    if hasattr(scorer, "score"):
        arrays = [scorer.score(side, given, TRIPLES[:, 1]) for side, given in asked.items()]
        return [model.name, *(array.tobytes() for array in arrays)]
    arrays = [scorer.encode_queries(side, given, TRIPLES[:, 1]) for side, given in asked.items()]
    arrays += [scorer.candidates(side) for side in asked]
    return [model.name, scorer.similarity, *(array.tobytes() for array in arrays)]


def _flips(path: Path, count: int, seed: int, outcome: Callable[[Path], Any]) -> Counter[str]:
    """Flip ``count`` single bits, each in the sound file, and count how many were refused or gave the same outcome."""
    sound, expected = path.read_bytes(), outcome(path)
    counts: Counter[str] = Counter()
    for bit in np.random.default_rng(seed).choice(8 * len(sound), min(count, 8 * len(sound)), replace=False).tolist():
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            found = outcome(path)
        except DataError:
            counts["refused"] += 1
            continue
        assert found == expected, f"bit {bit % 8} of byte {bit // 8} changes what is read"
        counts["same"] += 1
    path.write_bytes(sound)
    return counts


@pytest.mark.parametrize("kind", FILES)
def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path, kind: str) -> None:
    ending, write = FILES[kind]
    path = tmp_path / f"mine{ending}"
    write(path)
    counts = _flips(path, 150, seed=1, outcome=_numbers)
    assert counts["refused"] > 50


@pytest.mark.campaign
@pytest.mark.parametrize("kind", FILES)
def test_10_000_flipped_bits_are_refused_or_change_nothing(tmp_path: Path, kind: str) -> None:
    ending, write = FILES[kind]
    path = tmp_path / f"mine{ending}"
    write(path)
    counts = _flips(path, 10_000, seed=2, outcome=_numbers)
    print(f"{kind}: {dict(counts)}")
    assert counts["refused"] > counts["same"]


@pytest.mark.parametrize("kind", ["npz", "safetensors", "scores npz"])
def test_ranks_are_the_same_or_refused(tmp_path: Path, kind: str) -> None:
    ending, write = FILES[kind]
    path = tmp_path / f"mine{ending}"
    write(path)
    counts = _flips(path, 20, seed=3, outcome=lambda file: rank(file, GRAPH).rank.tolist())
    assert counts["refused"]


def test_every_bit_around_the_checksum_of_safetensors_is_covered(tmp_path: Path) -> None:
    """A flip in the name of the hash must not make an own file pass for one of another program."""
    path = tmp_path / "mine.safetensors"
    write_embeddings(path, {"model": "DistMult"}, {name: EMBEDDINGS[name] for name in ("entity", "relation")})
    sound = path.read_bytes()
    start = sound.index(b"sha256") - 12
    for bit in range(8 * start, 8 * (start + 30)):
        content = bytearray(sound)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        with pytest.raises(DataError):
            _numbers(path)


def test_very_many_arrays_are_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    names = [f"array {i}" for i in range(20_000)]
    contents: dict[str, Any] = {name: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for name in names}
    contents["__metadata__"] = {"kgprobe": json.dumps({"model": "DistMult"} | dict.fromkeys(names, 1))}
    text = json.dumps(contents).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(DataError) as caught:
        _numbers(path)
    assert len(caught.value.problems) < 30


@pytest.mark.parametrize("number", [0x110000, 0xFFFFFFFF, 0xD800])
def test_a_header_with_characters_that_do_not_exist_is_refused(tmp_path: Path, number: int) -> None:
    header = np.array([ord("{"), number, ord("}")], dtype=np.uint32).view("<U3").reshape(())
    np.savez(tmp_path / "mine.npz", header=header, entity=np.ones((3, 2)), relation=np.ones((1, 2)))
    with pytest.raises(DataError, match=r"mine\.npz: cannot be read") as caught:
        rank(tmp_path / "mine.npz", GRAPH)
    assert caught.value.problems == ["the header has characters that do not exist"]
