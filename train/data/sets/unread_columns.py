"""Refuse sets with columns that nothing reads: training would silently learn another objective."""

from collections.abc import Iterator, Sequence
from typing import Final

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import Manifest
from clozeline.pipeline.tasks.readers import facts_of
from clozeline.registry import find
from clozeline.train.data.stream.collate import Collate

_SEGMENTS: Final = "segment_starts"


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
    collate = Collate.from_manifest(manifest)
    family = find("clozeline.model.families", model.family)
    # columns without a reader
    compared = any(head.pool == "pair" for head in model.heads.values())
    for name, role in collate.roles.items():
        if name == _SEGMENTS:
            if not (model.type_vocab_size or model.languages or "type_ids" in family.optional or compared):
                yield name, "segment embeddings (model.type_vocab_size) or the pool pair of a head"
        elif name == "languages":
            if not model.languages:
                yield name, "language embeddings (model.languages)"
        elif role.head in heads:
            yield name, f"the head {role.head}"
        elif not role.head and name in collate.plain and name not in family.needs | family.optional:
            yield name, f"a family that reads it, which {model.family} does not"
    # heads without a column of their own
    for head in sorted(heads - {role.head for role in collate.roles.values()}):
        yield head, "the head of that name, which the objective serves"
