"""Save a PyKEEN model so that it can be ranked without unpickling anything."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kgprobe.errors import KgprobeError, UsageError
from kgprobe.files import replacing
from kgprobe.predict.sources.pykeen.adapter import evaluating
from kgprobe.predict.sources.pykeen.fit import ModelNames
from kgprobe.predict.sources.pykeen.names import write_names
from kgprobe.predict.sources.pykeen.settings import SETTINGS_FILE, ModelSettings
from kgprobe.predict.sources.pykeen.weights import STATE_FILES, load_weights, scoring_state

if TYPE_CHECKING:
    from pykeen.models import Model
    from pykeen.triples import CoreTriplesFactory

_READ_OFF: Mapping[str, Callable[[Any], Any]] = {
    "embedding_dim": lambda model: model.entity_representations[0].shape[-1],
    "relation_dim": lambda model: model.relation_representations[0].shape[-1],
    "rank": lambda model: model.entity_representations[0].shape[0],
    "scoring_fct_norm": lambda model: model.interaction.p,
    "power_norm": lambda model: model.interaction.power_norm,
    "apply_batch_normalization": lambda model: model.interaction.head_batch_norm is not None,
}
"""Arguments of PyKEEN's models that can be seen on the model."""

_TRIED_TRIPLES = 256


def save_for_ranking(
    model: Model,
    triples_factory: CoreTriplesFactory | None,
    directory: str | os.PathLike[str],
    model_kwargs: Mapping[str, Any] | None = None,
) -> None:
    """Save a model's weights, settings and names in a folder that `open_pykeen` reads.

    The model is built again from what was saved and must score as before, so a folder that is written can be ranked.

    Args:
        model: One of PyKEEN's own models, trained.
        triples_factory: Its training triples, whose names of entities and relations are kept; None to keep none.
        directory: The folder, which is made if need be.
        model_kwargs: What the model was made with, where that cannot be seen on the model. After PyKEEN's pipeline this
            is ``result.configuration["model_kwargs"]``.

    Raises:
        UsageError: The model cannot be built again from these settings.

    Example:
        >>> import tempfile
        >>> from pykeen.models import RotatE
        >>> from pykeen.triples import KGInfo
        >>> folder = Path(tempfile.mkdtemp())
        >>> save_for_ranking(RotatE(triples_factory=KGInfo(3, 2, False), embedding_dim=4, random_seed=1), None, folder)
        >>> sorted(path.name for path in folder.iterdir())
        ['kgprobe.json', 'model_state.pt']
    """
    import torch
    from pykeen.triples import TriplesFactory

    settings = ModelSettings(
        model=type(model).__name__,
        num_entities=model.num_entities,
        num_relations=model.num_real_relations,
        model_kwargs={**_seen(model), **_plain(model_kwargs or {})},
        create_inverse_triples=model.use_inverse_triples,
    )
    folder = Path(directory)
    with replacing(folder / STATE_FILES[0]) as temporary:
        torch.save({name: tensor.cpu() for name, tensor in scoring_state(model.state_dict()).items()}, temporary)
        _check(model, settings, temporary)
    if isinstance(triples_factory, TriplesFactory):
        write_names(folder, ModelNames.of(triples_factory))
    with replacing(folder / SETTINGS_FILE) as temporary:
        temporary.write_text(settings.text(), encoding="utf-8")


def _seen(model: Model) -> dict[str, Any]:
    """The arguments of the model's class that can be seen on the model."""
    accepted = inspect.signature(type(model)).parameters
    seen: dict[str, Any] = {}
    for name, read in _READ_OFF.items():
        with suppress(AttributeError, IndexError):  # a model that keeps it elsewhere, or not at all
            seen |= {name: read(model)} if name in accepted else {}
    return seen


def _plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that JSON has; losses, initialisers and the like take no part in scoring."""

    def has(value: Any) -> bool:
        try:
            return bool(json.dumps(value))
        except (TypeError, ValueError):
            return False

    return {name: value for name, value in arguments.items() if has(value)}


def _check(model: Model, settings: ModelSettings, weights: Path) -> None:
    """The model built again must score as this one does."""
    import torch

    try:
        again = settings.build()
        load_weights(again, weights)
        again = again.to(model.device)
    except KgprobeError as error:
        raise _not_saved(settings, error.problems) from None
    draw = torch.Generator().manual_seed(0)
    sizes = (model.num_entities, model.num_relations, model.num_entities)
    triples = [torch.randint(size, (_TRIED_TRIPLES,), generator=draw) for size in sizes]
    batch = torch.stack(triples, dim=1).to(model.device)
    with evaluating(model), evaluating(again):
        same = torch.allclose(model.score_hrt(batch), again.score_hrt(batch), rtol=1e-4, atol=1e-6, equal_nan=True)
    if not same:
        raise _not_saved(settings, [f"with {json.dumps(settings.model_kwargs)} its scores are not those of the model"])


def _not_saved(settings: ModelSettings, problems: list[str]) -> UsageError:
    return UsageError(
        f"{settings.model}: not saved, since it could not be built again",
        problems,
        "give what the model was made with, save_for_ranking(model, factory, folder, model_kwargs={...}); a model that "
        "cannot be built from such settings can be ranked while it is in memory: kgprobe.rank(model, graph)",
    )
