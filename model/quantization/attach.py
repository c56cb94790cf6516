"""Give the linear maps of a model a number format, in place: for a training, or to hold stored integers."""

from typing import Final

from torch import nn

from clozeline.errors import ConfigurationError
from clozeline.model.layers.vocabulary import VocabularyProjection
from clozeline.model.parameters.sharding import full_shape
from clozeline.model.quantization.formats import Format
from clozeline.model.quantization.modules import (
    RoundedEmbedding,
    RoundedLinear,
    RoundedProjection,
    StoredEmbedding,
    StoredLinear,
    StoredProjection,
)
from clozeline.registry import Chosen

_TABLE: Final = "family.tokens"
_ROUNDED: Final = {nn.Linear: RoundedLinear, nn.Embedding: RoundedEmbedding, VocabularyProjection: RoundedProjection}


def quantizable_modules(model: nn.Module, number_format: Format) -> dict[str, nn.Module]:
    """Return the modules that a format quantizes by path, each once.

    These are the linear maps of the body. Norms, heads, and the tables of positions and types stay in floating point;
    so do the token table and the projections onto the vocabulary, unless `embeddings` is true.

    Raises:
        ConfigurationError: there are none, or the format cannot store one of them.
    """
    modules: dict[str, nn.Module] = {}
    tables: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        is_table = path == _TABLE and type(module) is nn.Embedding
        if path.startswith("family.") and type(module) is nn.Linear:
            modules[path] = module
        elif is_table or (path.startswith("heads.") and type(module) is VocabularyProjection):
            tables[path] = module
    if number_format.options.embeddings:
        modules |= tables
    name = type(number_format).__name__.lower()
    if not modules:
        raise ConfigurationError(
            f"model.quantization {name}: expected a family with linear maps, got one without; LSTMs have none"
        )
    for path, module in modules.items():
        if problem := number_format.problem(full_shape(module.weight)[1]):  # type: ignore[arg-type]
            raise ConfigurationError(f"model.quantization {name}: {path}: {problem}")
    return modules


def attach_format(model: nn.Module, chosen: Chosen) -> None:
    """Give a model the number format of its configuration, before its weights are initialized or loaded.

    Parameters keep their names, unless they are stored as integers: `PATH.weight` is then two buffers,
    `PATH.integers` and `PATH.scales`.

    Raises:
        ConfigurationError: the format does not fit the model.
    """
    number_format: Format = chosen.build()
    modules = quantizable_modules(model, number_format)
    if not number_format.options.stored:
        # the same module with another forward: its parameters, hooks and position in the model stay
        for module in modules.values():
            module.__class__ = _ROUNDED[type(module)]
            module.number_format = number_format  # type: ignore[assignment]
        return
    table = modules.get(_TABLE)
    embedding = StoredEmbedding(number_format, table) if isinstance(table, nn.Embedding) else None
    stored: dict[int, nn.Module] = {} if embedding is None else {id(table): embedding}
    for module in modules.values():
        if isinstance(module, nn.Linear):
            stored[id(module)] = StoredLinear(number_format, module)
        elif isinstance(module, VocabularyProjection):
            tied = table is not None and module.weight is table.weight
            stored[id(module)] = StoredProjection(number_format, module, embedding if tied else None)
    # a module may belong to several parents: replace it in each
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if id(child) in stored:
                setattr(parent, name, stored[id(child)])
