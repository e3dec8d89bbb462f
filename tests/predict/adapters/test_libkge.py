import os
import pickletools
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kgprobe.errors import DataError
from kgprobe.graph import KnowledgeGraph, load_graph
from kgprobe.predict import rank, stored_arrays
from kgprobe.predict.adapters.libkge import is_libkge, open_libkge
from kgprobe.predict.stored_arrays import StoredTable
from libkge_files import FORMULAS, SavedModel, save, write_ids
from ranking import Matrix, brute_force, graph_of, rows_of

ENTITIES, RELATIONS = 23, 3
ODD = ["Ada", "a b", "é", "'", '"', "0", "1", "知識", "-", "#x", "x\\n", "a,b", "%s", "NaN", "None", " z"]


def _named_graph(seed: int = 3) -> KnowledgeGraph:
    graph = graph_of(seed, ENTITIES, RELATIONS, 80)
    return KnowledgeGraph.from_triples(
        **{split: graph.triples(split) for split in ("train", "valid", "test")},
        entity_labels=[*ODD, *(f"e{i}" for i in range(ENTITIES - len(ODD)))],
        relation_labels=["r 0", "ß", "2"],
    )


graph = _named_graph()


def _shuffled(graph: KnowledgeGraph, seed: int = 0) -> tuple[Any, Any, tuple[list[str], list[str]]]:
    """The ids of the rows of a model in another order than that of the graph, and the names of the rows."""
    draw = np.random.default_rng(seed)
    entities, relations = draw.permutation(graph.num_entities), draw.permutation(graph.num_relations)
    return entities, relations, (graph.entity_label(entities), graph.relation_label(relations))


def _as_in_graph(scores: Any, entities: Any, relations: Any) -> Any:
    """Scores of the model's rows, in the order of the graph's ids."""
    rows, kinds = np.argsort(entities), np.argsort(relations)
    return scores[:, rows][:, :, kinds][:, :, :, rows]


def _assert_ranks(path: Path, graph: KnowledgeGraph, scores: Any) -> None:
    assert rows_of(rank(path, graph)) == brute_force(Matrix(scores), graph)


@pytest.mark.parametrize("reciprocal", [False, True], ids=["plain", "reciprocal"])
@pytest.mark.parametrize("name", FORMULAS)
def test_ranks_are_those_of_the_formula(tmp_path: Path, name: str, reciprocal: bool) -> None:
    entities, relations, names = _shuffled(graph)
    model = SavedModel(name, ENTITIES, RELATIONS, reciprocal=reciprocal)
    path = save(tmp_path / "model_best.pt", model, names)
    assert is_libkge(path)
    _assert_ranks(path, graph, _as_in_graph(model.scores(), entities, relations))


def test_ranks_on_a_real_graph(data: Path, tmp_path: Path) -> None:
    real = load_graph(data / "graphs" / "umls")
    entities, relations, names = _shuffled(real)
    for name in ("complex", "rotate"):
        model = SavedModel(name, real.num_entities, real.num_relations, reciprocal=name == "complex")
        path = save(tmp_path / f"{name}.pt", model, names)
        _assert_ranks(path, real, _as_in_graph(model.scores(), entities, relations))


@pytest.mark.parametrize("name", ["transe", "simple", "transh"])
def test_projected_entities(tmp_path: Path, name: str) -> None:
    model = SavedModel(name, ENTITIES, RELATIONS, projected=True)
    path = save(tmp_path / "model.pt", model, (graph.entity_label(range(ENTITIES)), graph.relation_label(range(3))))
    _assert_ranks(path, graph, model.scores())


@pytest.mark.parametrize("zipped", [True, False], ids=["archive", "before torch 1.6"])
def test_older_files(tmp_path: Path, zipped: bool) -> None:
    model = SavedModel("complex", ENTITIES, RELATIONS, table="embeddings", reciprocal=True)

    def older(saved: dict[str, Any]) -> None:
        options = saved["config"].options
        options["model"] = "inverse_relations_model"
        options["inverse_relations_model"] = options.pop("reciprocal_relations_model")
        del saved["dataset"]

    path = save(tmp_path / "checkpoint_00050.pt", model, zipped=zipped, change=older)
    _assert_ranks(path, graph, model.scores())


def test_half_precision(tmp_path: Path) -> None:
    model = SavedModel("distmult", ENTITIES, RELATIONS)
    for kind in ("half", "bfloat16", "double"):  # exact for these numbers
        getattr(model.module, kind)()
        _assert_ranks(save(tmp_path / f"{kind}.pt", model), graph, model.scores())


@pytest.mark.parametrize("where", ["beside", "data"])
def test_names_of_the_data_folder(tmp_path: Path, where: str) -> None:
    entities, relations, names = _shuffled(graph, 1)
    names[0][names[0].index("a,b")] = "a\tb"  # LibKGE splits a line at its first tab
    labelled = KnowledgeGraph.from_triples(
        **{split: graph.triples(split) for split in ("train", "valid", "test")},
        entity_labels=["a\tb" if label == "a,b" else label for label in graph.entity_label(range(ENTITIES))],
        relation_labels=graph.relation_label(range(RELATIONS)),
    )
    model = SavedModel("complex", ENTITIES, RELATIONS)
    model.options["dataset"]["files"]["entity_ids"] = {"filename": "entities.del", "type": "map"}
    path = save(tmp_path / "kge/local/experiments/run/checkpoint_best.pt", model)
    folder = path.parent if where == "beside" else tmp_path / "kge/data/people"
    write_ids(folder / "entities.del", names[0])
    write_ids(folder / "relation_ids.del", names[1])
    _assert_ranks(path, labelled, _as_in_graph(model.scores(), entities, relations))
    assert open_libkge(path, labelled)[2]["matched by name"] == ["entities", "relations"]


def test_settings_say_how_rows_are_matched(tmp_path: Path) -> None:
    model = SavedModel("rotate l_norm 2", ENTITIES, RELATIONS, reciprocal=True)
    name, _, settings = open_libkge(save(tmp_path / "checkpoint_best.pt", model), graph)
    assert name == "RotatE"
    assert settings == {
        "source": "checkpoint_best.pt",
        "library": "LibKGE",
        "model": "RotatE",
        "dimension": 8,
        "l_norm": 2.0,
        "reciprocal": True,
        "epoch": 50,
        "notes": [
            f"{what} are taken in the order of the graph's ids, because the file has no names"
            for what in ("entities", "relations")
        ],
    }


def test_a_graph_without_names(tmp_path: Path) -> None:
    model = SavedModel("distmult", ENTITIES, RELATIONS)
    path = save(tmp_path / "model.pt", model, _shuffled(graph)[2])
    bare = graph_of(3, ENTITIES, RELATIONS, 80)
    _assert_ranks(path, bare, model.scores())
    assert "because the graph has no names" in open_libkge(path, bare)[2]["notes"][0]


@pytest.mark.parametrize("name", ["complex", "rotate", "cp", "simple", "transe"])
def test_large_tables_stay_in_the_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entities, relations, names = _shuffled(graph)
    model = SavedModel(name, ENTITIES, RELATIONS, reciprocal=name == "complex")
    path = save(tmp_path / "model.pt", model, names)
    monkeypatch.setattr(stored_arrays, "LARGE_BYTES", 100)
    scorer: Any = open_libkge(path, graph)[1]
    assert isinstance(scorer.candidates("tail"), StoredTable)
    assert isinstance(scorer.candidates("head"), StoredTable)
    _assert_ranks(path, graph, _as_in_graph(model.scores(), entities, relations))


class Harmful:
    """What writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.system, (f"touch '{self.path}'",)


def _problems(path: Path, among: KnowledgeGraph = graph, **options: Any) -> list[str]:
    with pytest.raises(DataError) as caught:
        open_libkge(path, among, **options)
    assert str(path) in caught.value.title
    assert caught.value.remedy
    return caught.value.problems


@pytest.mark.parametrize("zipped", [True, False], ids=["archive", "before torch 1.6"])
@pytest.mark.parametrize("place", ["beside", "in the options", "as the options", "as weights"])
def test_nothing_in_a_file_is_run(tmp_path: Path, place: str, zipped: bool) -> None:
    harm = Harmful(tmp_path / "harm")

    def planted(saved: dict[str, Any]) -> None:
        if place == "beside":
            saved["valid_trace"].append(harm)
        elif place == "in the options":
            saved["config"].options["verbose"] = harm
        elif place == "as the options":
            saved["config"].options = harm
        else:
            saved["model"][0]["_entity_embedder._embeddings.weight"] = harm

    model = SavedModel("complex", ENTITIES, RELATIONS)
    path = save(tmp_path / "checkpoint_best.pt", model, change=planted, zipped=zipped)
    assert _problems(path) == [f"it names '{os.system.__module__}.system', which LibKGE does not save"]
    if place in ("beside", "in the options"):
        scorer = open_libkge(path, graph, trust_pickle=True)[1]
        assert scorer.candidates("tail").shape == (ENTITIES, 8)  # type: ignore[union-attr]
    else:
        assert f"{os.system.__module__}.system" in _problems(path, trust_pickle=True)[0] or place == "as the options"
    assert not harm.path.exists()


def test_the_class_of_configurations_is_not_run(tmp_path: Path) -> None:
    """A pickle that sets the state of a configuration to the result of a call, and calls a configuration."""
    harm = tmp_path / "harm"
    call = b"cposix\nsystem\n(Vtouch %b\ntR" % str(harm).encode()
    config = b"ckge.config\nConfig\n)\x81"
    path = tmp_path / "checkpoint_best.pt"
    for pickled in (config + call + b"b", config + b"(Va\ntR", b"(" + call + b"ikge.config\nConfig\n"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", b"\x80\x02}Vconfig\n" + pickled + b"s.")
        if b"posix" in pickled:
            assert _problems(path) == ["it names 'posix.system', which LibKGE does not save"]
        problems = _problems(path, trust_pickle=True)
        damaged = "the pickle is damaged: a call of kge.config.Config"
        assert problems[-1].startswith(("'model' is None, expected the weights", damaged))
    assert not harm.exists()


def test_many_foreign_classes_are_counted(tmp_path: Path) -> None:
    foreign = [value for name, value in vars(pickletools).items() if name.startswith("read_")][:14]
    model = SavedModel("complex", ENTITIES, RELATIONS)
    problems = _problems(save(tmp_path / "a.pt", model, change=lambda saved: saved.update(extra=foreign)))
    assert len(problems) == 11
    assert problems[-1] == "it names 4 other classes or functions"


SUPPORTED = "complex, distmult, transe, rotate, cp, simple, rescal, relational_tucker3, transh"


@pytest.mark.parametrize("name", ["conve", "transformer"])
def test_other_models_are_refused(tmp_path: Path, name: str) -> None:
    path = save(tmp_path / "model.pt", SavedModel(name, ENTITIES, RELATIONS))
    with pytest.raises(DataError) as caught:
        open_libkge(path, graph)
    assert caught.value.problems == [f"the model '{name}' is not supported"]
    assert SUPPORTED in caught.value.remedy


def _edited(**options: Any) -> Any:
    def change(saved: dict[str, Any]) -> None:
        saved["config"].options["transe"].update(options)

    return change


def _without(key: str) -> Any:
    return lambda saved: saved.pop(key)


def _weights(**tensors: Any) -> Any:
    names = {"entity": "_entity_embedder._embeddings.weight", "relation": "_relation_embedder._embeddings.weight"}

    def change(saved: dict[str, Any]) -> None:
        for name, tensor in tensors.items():
            if tensor is None:
                del saved["model"][0][names[name]]
            else:
                saved["model"][0][names.get(name, name)] = tensor

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (_without("config"), ["'config' is None, expected an object of kge.config.Config with options"]),
        (_without("model"), ["'model' is None, expected the weights and the metadata of a model"]),
        (
            lambda saved: saved.clear(),
            [
                "'config' is None, expected an object of kge.config.Config with options",
                "'model' is None, expected the weights and the metadata of a model",
            ],
        ),
        (_edited(l_norm=3.0), ["the option 'transe.l_norm' is 3.0, expected 1 or 2"]),
        (_edited(l_norm=True), ["the option 'transe.l_norm' is True, expected 1 or 2"]),
        (_edited(class_name="Mine"), ["the model 'transe' has the class 'Mine', expected 'TransE'"]),
        (
            _edited(entity_embedder={"type": "mine"}, l_norm="1"),
            [
                "the option 'transe.l_norm' is '1', expected 1 or 2",
                "the entity embedder 'mine' is not supported: lookup_embedder, projection_embedder, "
                "tucker3_relation_embedder",
                "the model has '_entity_embedder._embeddings.weight', which is not part of transe",
            ],
        ),
        (
            _weights(entity=None, relation=torch.ones(3)),
            [
                "_entity_embedder._embeddings.weight is missing",
                "_relation_embedder._embeddings.weight has the shape (3,), expected a matrix",
            ],
        ),
        (
            _weights(entity=torch.ones(23, 8, dtype=torch.int64), relation=torch.ones(8, 3).T, other=torch.ones(1)),
            [
                "_entity_embedder._embeddings.weight: a tensor of torch.LongStorage, expected floating-point numbers",
                "_relation_embedder._embeddings.weight: a tensor that is not stored in the order of its rows",
                "the model has 'other', which is not part of transe",
            ],
        ),
        (
            _weights(relation=torch.ones(3, 5)),
            ["5 coordinates of a relation, expected 8 for 8 of an entity"],
        ),
        (
            lambda saved: saved["dataset"].update(num_entities=22, num_relations=4),
            [
                "the model has 23 entities, but its dataset has 22",
                "the model has 3 relations, but its dataset has 4",
            ],
        ),
        (
            lambda saved: saved["dataset"].update(meta={"entity_ids": ["a"], "relation_ids": ["a", None, 3]}),
            ["1 names of entities, but 23 rows", "dataset.meta.relation_ids is not a list of names"],
        ),
        (
            _weights(entity=torch.full((23, 8), float("nan"))),
            [
                "_entity_embedder._embeddings.weight: 23 rows hold NaN, infinity or numbers beyond float32: 0-22 "
                "(counted from 0)"
            ],
        ),
    ],
)
def test_contradictions_are_all_named(tmp_path: Path, change: Any, expected: list[str]) -> None:
    path = save(tmp_path / "checkpoint_best.pt", SavedModel("transe", ENTITIES, RELATIONS), change=change)
    assert _problems(path) == expected


def test_copies_of_a_reciprocal_model_must_agree(tmp_path: Path) -> None:
    name = "_relation_embedder._embeddings.weight"
    model = SavedModel("complex", ENTITIES, RELATIONS, reciprocal=True)

    def plus(number: float) -> Any:
        def change(saved: dict[str, Any]) -> None:
            saved["model"][0][name] = saved["model"][0][name] + number

        return change

    _assert_ranks(save(tmp_path / "a.pt", model, change=plus(0)), graph, model.scores())
    differing = save(tmp_path / "b.pt", model, change=plus(1))
    assert _problems(differing) == [f"_base_model.{name} and {name} differ, but are one table in LibKGE"]
    odd = save(tmp_path / "c.pt", SavedModel("complex", ENTITIES, 3), change=_as_reciprocal)
    assert _problems(odd) == ["3 rows of relations, expected two for each relation"]


def _as_reciprocal(saved: dict[str, Any]) -> None:
    weights = saved["model"][0]
    for name in list(weights):
        weights[f"_base_model.{name}"] = weights.pop(name)
    options = saved["config"].options
    options["reciprocal_relations_model"] = {"base_model": {"type": options["model"]}}
    options["model"] = "reciprocal_relations_model"


def test_another_graph(tmp_path: Path) -> None:
    model = SavedModel("complex", ENTITIES, RELATIONS, reciprocal=True)
    path = save(tmp_path / "model.pt", model, _shuffled(graph)[2])
    problems = _problems(
        path, KnowledgeGraph.from_triples(train=[[0, 0, 1]], entity_labels=["Ada", "Zoe"], relation_labels=["x"])
    )
    assert problems[:2] == ["the model has 23 entities, the graph 2", "the model has 3 relations, the graph 1"]
    assert "1 names of the graph that are not given: 'Zoe'" in problems[3]


def test_damaged_names(tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoint_best.pt", SavedModel("complex", ENTITIES, RELATIONS))
    (tmp_path / "entity_ids.del").write_text("0\ta\nx\tb\n", encoding="utf-8")
    (tmp_path / "relation_ids.del").write_text("0\ta\n2\tb\n3\tc", encoding="utf-8")
    problems = _problems(path)
    assert problems[0].startswith("entity_ids.del, line 2: 'x' is not an id")
    assert problems[1].startswith("relation_ids.del: ids must run from 0 to 2 without gaps; missing: 1")


def test_names_are_not_looked_for_elsewhere(tmp_path: Path) -> None:
    model = SavedModel("complex", ENTITIES, RELATIONS)
    model.options["dataset"] = {"name": "../secret", "files": {"entity_ids": {"filename": "/etc/passwd"}}}
    notes = open_libkge(save(tmp_path / "checkpoint_best.pt", model), graph)[2]["notes"]
    assert len(notes) == 2


def test_types_that_name_each_other_end(tmp_path: Path) -> None:
    path = save(tmp_path / "a.pt", SavedModel("transe", ENTITIES, RELATIONS), change=_loop)
    assert _problems(path) == ["the option 'transe.l_norm' is None, expected 1 or 2"]


def _loop(saved: dict[str, Any]) -> None:
    del saved["config"].options["transe"]["l_norm"]
    saved["config"].options["transe"]["type"] = "transe"
