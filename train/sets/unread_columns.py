"""Columns of a set that no part of a run reads: training would silently learn another objective."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from model.config import ModelConfig
from model.registry import find
from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest
from train.stream.collate import Collate
from train.stream.head_features import ANSWER_COLUMNS, HEAD_OF_COLUMN

__all__ = ["kept_for_inversion", "refuse_unread"]

_INVERSION: Final = (
    "sentence_starts", "sentence_order", "token_order", "rotation", "kept_positions", "noise_positions", "span_starts",
    "span_lengths", "task", "word_numbers", "owned_places", "offsets", "record",
)  # fmt: skip
"""Columns kept for `uncorrupt`, for scores and for people; a composition puts the name of a step before them."""


def kept_for_inversion(name: str) -> bool:
    """Return whether a column that batches are not made of is stored on purpose."""
    return name.endswith(_INVERSION) or name in ("document_starts", "target_document_starts")


def refuse_unread(manifest: Manifest, model: ModelConfig, ignore: Sequence[str], key: str) -> None:
    """Refuse a set with columns, or an objective with heads, that this model leaves unread and `ignore` does not list.

    Args:
        manifest: of an example set.
        model: what is trained.
        ignore: `data.ignore`.
        key: the configuration's name of the set, with its path.

    Raises:
        ConfigurationError: the message names the columns and what would read them.
    """
    unread = {name: reader for name, reader in _unread(manifest, model) if name not in ignore}
    if unread:
        readers = "; ".join(f"{name} is for {reader}" for name, reader in unread.items())
        raise ConfigurationError(
            f"{key} holds what this model does not read: {readers}. Add what reads it, or leave it unread on purpose: "
            f"data.ignore=[{', '.join([*ignore, *unread])}]"
        )


def _unread(manifest: Manifest, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield names that the model leaves unread, each with what would read it."""
    objective = manifest.objective
    heads = set(objective.heads if objective else ()) - set(model.targets.values())
    columns = [spec.name for spec in manifest.specs if spec.kind == "list"]
    read = set(Collate.from_manifest(manifest).columns)
    optional = find("model.families", model.family).optional
    wanted = {
        name: head for name, head in HEAD_OF_COLUMN.items() if model.architecture == "encoder" or name in ANSWER_COLUMNS
    }
    compared = any(head.pool == "pair" for head in model.heads.values())
    for name in columns:
        if name == "segment_starts":
            if not (model.type_vocab_size or model.languages or "type_ids" in optional or compared):
                yield name, "segment embeddings (model.type_vocab_size) or the pool pair of a head"
        elif name == "languages":
            if not model.languages:
                yield name, "language embeddings (model.languages)"
        elif name in wanted:
            if wanted[name] in heads:
                yield name, f"the head {wanted[name]}"
        elif name not in read and not kept_for_inversion(name):
            yield name, "no head or family that there is"
    for head in sorted(heads - {wanted[name] for name in columns if name in wanted}):
        yield head, "the head of that name, which the objective serves"
