"""Match the ids of a PyKEEN model with those of a graph, by the names of entities and relations."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kgprobe.arrays import AnyInts
from kgprobe.bounded_files import LONGEST_LINE, UNREADABLE, open_bytes
from kgprobe.errors import DataError, spans
from kgprobe.files import replacing
from kgprobe.graph.knowledge_graph import KnowledgeGraph
from kgprobe.graph.names import Labels, as_labels
from kgprobe.graph.text_files import SHOWN, Complaints, whole_number
from kgprobe.predict.adapters.pykeen_scorer import Ids, scorer_of
from kgprobe.predict.scorers import AnyScorer
from kgprobe.resources import TooLarge, shown_memory

if TYPE_CHECKING:
    from pykeen.models import Model
    from pykeen.triples import TriplesFactory

FOLDER = "training_triples"
_HEADER = ["id", "label"]
_WIDEST = 80


@dataclass(frozen=True)
class ModelNames:
    """The names of a model's entities and relations (without inverses), in the order of its ids."""

    entities: Sequence[str]
    relations: Sequence[str]

    @classmethod
    def of(cls, factory: TriplesFactory) -> ModelNames:
        """The names in the training triples of a model."""
        entity, relation = factory.entity_to_id, factory.relation_to_id
        return cls(sorted(entity, key=entity.__getitem__), sorted(relation, key=relation.__getitem__))


def scorer_for(model: Model, graph: KnowledgeGraph, names: ModelNames | None = None) -> AnyScorer:
    """The scorer of a model, with the ids of the graph.

    Ids are matched by name if the names of both are known; otherwise they must be the same.

    Raises:
        DataError: The numbers or the names of entities or relations differ.

    Example:
        >>> from pykeen.models import TransE
        >>> from pykeen.triples import KGInfo
        >>> model = TransE(triples_factory=KGInfo(2, 1, False), embedding_dim=5, random_seed=1)
        >>> graph = KnowledgeGraph.from_triples(
        ...     train=[[0, 0, 1]], entity_labels=["Ada", "Bob"], relation_labels=["knows"]
        ... )
        >>> scorer = scorer_for(model, graph, ModelNames(["Bob", "Ada"], ["knows"]))
        >>> bool((scorer.candidates("tail")[0] == scorer_of(model).candidates("tail")[1]).all())
        True
    """
    kind = type(model).__name__
    return scorer_of(model, model_ids(kind, model.num_entities, model.num_real_relations, graph, names))


def model_ids(
    kind: str, num_entities: int, num_relations: int, graph: KnowledgeGraph, names: ModelNames | None
) -> Ids | None:
    """For each entity and each relation of the graph its id in a model of these sizes; None if they are the same.

    Raises:
        DataError: The numbers or the names of entities or relations differ.
    """
    sizes = [("entities", num_entities, graph.num_entities), ("relations", num_relations, graph.num_relations)]
    problems = [f"the model has {own:,} {kind}, the graph {there:,}" for kind, own, there in sizes if own != there]
    entities = relations = None
    if names is not None:
        entities = _own_ids("entities", names.entities, graph.entity_labels, problems)
        relations = _own_ids("relations", names.relations, graph.relation_labels, problems)
    if problems:
        remedy = "rank the graph that the model was trained on, with the same entities and relations"
        raise DataError(f"this {kind} model and the graph {graph.name} do not fit", problems, remedy)
    if entities is None and relations is None:
        return None
    entities = np.arange(graph.num_entities) if entities is None else entities
    relations = np.arange(graph.num_relations) if relations is None else relations
    return entities, relations


def _own_ids(kind: str, names: Sequence[str], labels: Labels | None, problems: list[str]) -> NDArray[np.int64] | None:
    """For each id of the graph the id in the model; None if they are the same or the graph has no names."""
    import pyarrow.compute as pc

    own = as_labels(names)
    if labels is None or own is None or labels.equals(own.cast(labels.type)):
        return None
    own = own.cast(labels.type)
    ids: NDArray[np.int64] = pc.index_in(labels, value_set=own).fill_null(-1).to_numpy().astype(np.int64)
    found = ids[ids >= 0]
    problems += _listed(f"{kind} that only the graph has", labels, np.flatnonzero(ids < 0))
    problems += _listed(f"{kind} that only the model has", own, np.setdiff1d(np.arange(len(own)), found))
    problems += _listed(f"names that several {kind} of the graph share", own, np.flatnonzero(np.bincount(found) > 1))
    return ids


def _listed(what: str, labels: Labels, ids: AnyInts) -> list[str]:
    """List these ids: the first ones by name, the others by number."""
    if not len(ids):
        return []
    shown = ", ".join(
        "one without a name" if name is None else repr(name)[:_WIDEST] for name in labels.take(ids[:SHOWN]).to_pylist()
    )
    more = f", and those of the ids {spans(ids[SHOWN:].tolist())}" if len(ids) > SHOWN else ""
    return [f"{len(ids):,} {what}: {shown}{more}"]


def read_names(directory: Path) -> ModelNames | None:
    """Read the names in a saved folder; None if there are none.

    Raises:
        DataError: Some lines are not valid; all of them are named.
    """
    files = [directory / FOLDER / f"{kind}_to_id.tsv.gz" for kind in ("entity", "relation")]
    if not any(file.exists() for file in files):
        return None
    problems: list[str] = []
    entities, relations = (_read(file, problems) for file in files)
    if problems:
        raise DataError(
            f"{directory / FOLDER}: the names of entities and relations cannot be used",
            problems,
            "a file of names has lines of id<TAB>label, after a header line with these two words, as PyKEEN writes it",
        )
    return ModelNames(entities, relations)


def write_names(directory: Path, names: ModelNames) -> None:
    """Write names in PyKEEN's format."""
    for kind, some in (("entity", names.entities), ("relation", names.relations)):
        with (
            replacing(directory / FOLDER / f"{kind}_to_id.tsv.gz") as temporary,
            gzip.open(temporary, "wt", encoding="utf-8", newline="") as file,
        ):
            lines = csv.writer(file, delimiter="\t", lineterminator="\n")
            lines.writerow(_HEADER)
            lines.writerows(enumerate(some))


def _read(path: Path, problems: list[str]) -> Sequence[str]:
    complaints = Complaints(path.name)
    names: dict[int, str] = {}
    known: set[str] = set()
    try:
        with open_bytes(path) as file:
            lines = csv.reader(_lines(file), delimiter="\t")
            if next(lines, None) != _HEADER:
                complaints.add(1, "expected the words id and label", "")
            for fields in lines:
                wrong = _wrong(fields, names, known)
                if wrong:
                    complaints.add(lines.line_num, wrong, "\t".join(fields))
                else:
                    names[int(fields[0])] = fields[1]
                    known.add(fields[1])
    except (*UNREADABLE, UnicodeDecodeError, csv.Error) as error:
        problems.append(f"{path.name}: cannot be read ({error})")
        return []
    problems += complaints.lines()
    missing = sorted(set(range(len(names))) - names.keys())
    if missing and not complaints.lines():
        problems.append(f"{path.name}: {len(names):,} names, but no id {missing[0]}")
    return [names[i] for i in sorted(names)]


def _lines(file: IO[bytes]) -> Iterator[str]:
    """Lines with their ends, which a quoted label may contain."""
    while line := file.readline(LONGEST_LINE + 1):
        if len(line) > LONGEST_LINE:
            raise TooLarge(f"a line is longer than {shown_memory(LONGEST_LINE)}, the longest line that is read")
        yield line.decode("utf-8")


def _wrong(fields: list[str], names: dict[int, str], known: set[str]) -> str | None:
    if len(fields) != 2:
        return f"{len(fields)} fields, expected 2"
    number = whole_number(fields[0])
    if number is None:
        return "the id is not an integer"
    if number in names:
        return "the id is repeated"
    return "the label is repeated" if fields[1] in known else None
