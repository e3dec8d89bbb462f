import pytest
import torch
from pykeen.models import model_resolver
from pykeen.triples import KGInfo

ENTITIES, RELATIONS = 23, 5


def stirred(model, seed: int = 0):
    """The model with weights, and statistics of batch normalisation, that no initialiser would choose."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "regularizer" not in name:
                noise = torch.randn(tensor.shape, generator=draw, dtype=tensor.dtype)
                tensor.copy_(noise.abs() + 0.5 if "running_var" in name else noise)
    return model


@pytest.fixture
def make():
    """Makes a model by name, with weights that are not those of any initialiser."""

    def make(name: str, *, inverse: bool = False, entities: int = ENTITIES, relations: int = RELATIONS, **settings):
        facts = KGInfo(entities, relations, create_inverse_triples=inverse)
        settings.setdefault("random_seed", 0)
        return stirred(model_resolver.lookup(name)(triples_factory=facts, **settings))

    return make
