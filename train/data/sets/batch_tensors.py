"""Refuse sets whose batches a model cannot read, from tensor names alone, before the first batch."""

from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families.encoder import MODE_TYPES
from clozeline.registry import find
from clozeline.train.data.stream.collate import Collate

_OF_ENGINE: Final = frozenset({"sample_words"})
"""Tensors that the engine adds to a batch."""
_SEGMENTS: Final = 2
"""Segment types of pairs, the most segments of a row."""
_LEFT_PADDED: Final = 3
"""Segment types of left-padded rows, whose [CLS] has its own."""


def refuse_unreadable(collate: Collate, model: ModelConfig, key: str) -> None:
    """Refuse a set whose rows the model would misread or cannot read."""
    names, family = collate.tensor_names, find("clozeline.model.families", model.family)
    for name, expected in family.unsupported.items():
        if name in names:
            raise ConfigurationError(f"{key}: {name}: {expected}")
    if "left_padding" in names:
        unfit = [f"model.heads.{head}" for head in model.heads if not find("clozeline.model.heads", head).left_padding]
        for part in unfit if family.left_padding else [f"model.family: {model.family}"]:
            raise ConfigurationError(
                f"{key}: {part} reads rows padded on the right only, and these are padded on the left: use another "
                "frame than xlnet"
            )
    # the number of segment types
    modes, table = "attention" in names, model.type_vocab_size
    if modes and _SEGMENTS < table < MODE_TYPES:
        raise ConfigurationError(
            f"model.type_vocab_size: {key}: rows have modes of attention: expected {MODE_TYPES} to tell modes and "
            f"segments apart, {_SEGMENTS} for segments alone, or 0 for neither; got {table}"
        )
    needed = _SEGMENTS if ("segment_ids" if modes else "type_ids") in names else 0
    needed = _LEFT_PADDED if "left_padding" in names and not modes else needed
    if 0 < table < needed:
        why = f"rows have the segment types 0 to {needed - 1}: expected {needed} or more, or 0 for none; got {table}"
        raise ConfigurationError(f"model.type_vocab_size: {key}: {why}")


def refuse_missing(collate: Collate, model: ModelConfig, key: str) -> None:
    """Refuse sets without a tensor that the family or a head reads."""
    parts = {f"model.family: {model.family}": find("clozeline.model.families", model.family)}
    parts |= {f"model.heads.{name}": find("clozeline.model.heads", name) for name in model.heads}
    for part, reader in parts.items():
        if missing := reader.needs - collate.tensor_names - _OF_ENGINE:
            raise ConfigurationError(
                f"{key}: {part} needs {', '.join(sorted(missing))}, and these rows have no column for it: "
                "name sets of an objective that serves it, or leave it out"
            )
