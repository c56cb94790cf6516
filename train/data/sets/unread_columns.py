"""Refuse sets with columns that nothing reads: training would silently learn another objective."""

from collections.abc import Iterator, Sequence
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.registry import find
from clozeline.train.data.stream.collate import Collate
from clozeline.train.data.stream.head_features import ANSWER_COLUMNS, HEAD_OF_COLUMN

_SEGMENTS: Final = "segment_starts"
_INVERSION: Final = (
    "sentence_starts", "sentence_order", "token_order", "rotation", "kept_positions", "noise_positions", "span_starts",
    "span_lengths", "task", "word_numbers", "owned_places", "offsets", "record",
)  # fmt: skip
"""Suffixes of columns stored for `uncorrupt`, for scoring and for people; a composition prefixes the step's name."""


def is_for_inversion(name: str) -> bool:
    """Return whether a column is stored on purpose although no batch contains it."""
    return name.endswith(_INVERSION) or name in ("document_starts", "target_document_starts")


def refuse_unread(manifest: Manifest, model: ModelConfig, ignore: Sequence[str], key: str) -> None:
    """Refuse a set with columns or heads that this model does not read and `ignore` does not list.

    Segments of a task may stay unread: RoBERTa, too, separates texts by [SEP] alone.
    """
    spared = {*ignore, *([_SEGMENTS] if facts_of(manifest) is not None else [])}
    unread = {name: reader for name, reader in _unread(manifest, model) if name not in spared}
    if unread:
        readers = "; ".join(f"{name} is for {reader}" for name, reader in unread.items())
        raise ConfigurationError(
            f"{key} holds what this model does not read: {readers}. Add what reads it, or leave it unread on purpose: "
            f"data.ignore=[{', '.join([*ignore, *unread])}]"
        )


def unread_lines(manifests: Sequence[Manifest], model: ModelConfig) -> list[str]:
    """Return a line for the user if the model does not read the segments of its tasks."""
    tasks = [manifest for manifest in manifests if facts_of(manifest) is not None]
    unread = {name for manifest in tasks for name, _ in _unread(manifest, model)}
    line = (
        f"{_SEGMENTS} stays unread: the model has no segment embeddings (model.type_vocab_size), so special tokens "
        "alone part the texts of a row"
    )
    return [line] if _SEGMENTS in unread else []


def _unread(manifest: Manifest, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield unread columns and heads, each with what would read it."""
    # heads and columns that batches use
    objective = manifest.objective
    heads = set(objective.heads if objective else ()) - set(model.targets.values())
    columns = [spec.name for spec in manifest.columns if spec.kind == "list"]
    read = set(Collate.from_manifest(manifest).columns)
    optional = find("clozeline.model.families", model.family).optional
    head_of = {
        name: head for name, head in HEAD_OF_COLUMN.items() if model.architecture == "encoder" or name in ANSWER_COLUMNS
    }
    # columns without a reader
    compared = any(head.pool == "pair" for head in model.heads.values())
    for name in columns:
        if name == _SEGMENTS:
            if not (model.type_vocab_size or model.languages or "type_ids" in optional or compared):
                yield name, "segment embeddings (model.type_vocab_size) or the pool pair of a head"
        elif name == "languages":
            if not model.languages:
                yield name, "language embeddings (model.languages)"
        elif name in head_of:
            if head_of[name] in heads:
                yield name, f"the head {head_of[name]}"
        elif name not in read and not is_for_inversion(name):
            yield name, "no head or family that there is"
    # heads without a column of their own
    for head in sorted(heads - {head_of[name] for name in columns if name in head_of}):
        yield head, "the head of that name, which the objective serves"
