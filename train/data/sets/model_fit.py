"""Refuse sets that a model cannot read or would misread; take labels from sets."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from clozeline.columns import LABEL_INDEX, RANK, SAMPLE_WORDS, TYPE_IDS, names_of
from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.families.encoder import MODE_TYPES
from clozeline.model.registries import FAMILIES, HEADS
from clozeline.pipeline.rows import RowBatch
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards import Manifest, ShardSet
from clozeline.train.configuration.model_source import unset_head_key
from clozeline.train.data.stream.collate import Collate
from clozeline.train.registries import TRAINING_KEYS

_AFTER_GENERATOR: Final = frozenset({"token", "corrective"})
"""Heads that judge a generator's tokens if the objective also serves masked LM."""
_LABELS_OF_ANY_HEAD: Final = 2
"""Every head, even one with a single score, can distinguish this many labels."""
_SEGMENTS: Final = "segment_starts"
_PAIR_TYPES: Final = 2
"""Segment types of pairs, the most segments of a row."""
_LEFT_PADDED_TYPES: Final = 3
"""Segment types of left-padded rows, whose [CLS] has a separate type."""


def with_settings_of_sets(
    model: ModelConfig, manifests: Sequence[tuple[str, Manifest]]
) -> ModelConfig:
    """Return the model with the labels, score range or similarity threshold of its sets filled in.

    A checkpoint then stores the label names in order.

    Args:
        model: the model.
        manifests: description (for messages) and manifest of all sets.

    Raises:
        ConfigurationError: the configuration, or another set, has other labels.
    """
    heads = dict(model.heads)
    for where, manifest in manifests:
        kind = kind_of(manifest.objective)
        for name, target in model.targets.items():
            if kind is not None and target == kind.head:
                setup = kind.head_setup()
                heads[name] = setup.configure(replace(model, heads=heads), name, where)
    return replace(model, heads=heads) if heads != model.heads else model


def fit_heads(model: ModelConfig, training: Sequence[ShardSet]) -> ModelConfig:
    """Return the model with settings from the training rows, such as the scale of the numbers."""
    heads = dict(model.heads)

    for name, target in model.targets.items():
        kinds = [(kind_of(shards.manifest.objective), shards) for shards in training]
        of_head = [(kind, shards) for kind, shards in kinds if kind and kind.head == target]
        if of_head:
            sets = (shards for _, shards in of_head)
            heads[name] = of_head[0][0].head_setup().fit(heads[name], _read_rows(sets))

    return replace(model, heads=heads) if heads != model.heads else model


def _read_rows(training: Iterable[ShardSet]) -> Iterator[RowBatch]:
    for shards in training:
        yield from (shards.read_block(block) for block in range(len(shards.index)))


def judges_generator(target: str, served: Collection[str]) -> bool:
    """Return whether a head judges a generator's tokens, given the heads of the objective."""
    return target in _AFTER_GENERATOR and "masked_lm" in served


def find_targets(manifest: Manifest, model: ModelConfig) -> set[str]:
    """Return the heads that can be trained on a set.

    With a generator, its rows also serve the heads that judge the generator's tokens. Rows of tasks
    also serve a decoder's lm, as an auxiliary objective (Radford et al. 2018 §3.2).
    """
    served = set(manifest.objective.heads if manifest.objective else ())
    served |= (
        {"lm"}
        if Collate.from_manifest(manifest).predicts_next and model.architecture == "decoder"
        else set()
    )
    return served | _AFTER_GENERATOR if _family_of(model).generator_targets & served else served


def refuse_unfit_heads(manifest: Manifest, model: ModelConfig, key: str) -> None:
    """Refuse a set with labels for other heads, or without a column that the model needs."""
    # permuted language modeling needs a family that hides later predictions
    columns = manifest.roles.keys()
    family = _family_of(model)
    if "prediction_order" in columns and RANK not in family.optional:
        ordered = [name for name, kind in FAMILIES.classes().items() if RANK in kind.optional]
        raise ConfigurationError(
            f"{key}: prediction_order says when each position is predicted; the family "
            f"{model.family} would see the tokens that it predicts: set model.family to "
            f"{' or '.join(ordered)}"
        )

    # check each head: pairs, labels of other heads, columns that it needs, a generator
    served = find_targets(manifest, model)
    labeled = not columns.isdisjoint({"label_positions", "prediction_order"})

    for name, target in model.targets.items():
        head = model.heads[name]
        where = f"{key}: model.heads.{name}"

        if head.pool == "pair" and _SEGMENTS not in columns:
            raise ConfigurationError(
                f"{where}.pool: pair compares the two segments of a row, and the set has none: "
                "take a task of pairs in the frame bert, or another pool: "
                f"model.heads.{name}.pool=null"
            )

        if head.multi_label and target in served and "labels" not in columns:
            raise ConfigurationError(
                f"{where}.multi_label: expected false, as the column label of a shard set has one "
                f"class per row, got true: {unset_head_key(model, name, 'multi_label')}"
            )

        if target not in served and LABEL_INDEX in HEADS.load_class(name).reads and labeled:
            raise ConfigurationError(
                f"{where} would learn from labels that are for {', '.join(sorted(served))}: remove "
                "the set or the head"
            )

        if not family.generator_targets and target in served and judges_generator(target, served):
            raise ConfigurationError(
                f"{where} judges the tokens of a generator, and the family {model.family} has "
                "none; set model.family=replaced_tokens and model.generator, corrupt with "
                "replacement: uniform, unigram or shuffle, or remove the head: "
                f"data.ignore=[{target}]"
            )


def refuse_unread(
    manifest: Manifest,
    model: ModelConfig,
    ignore: Sequence[str],
    key: str,
    read: Collection[str] = (),
) -> None:
    """Refuse columns or heads that this model does not read and `ignore` does not list.

    Keys of extensions read the columns `read`.

    Training would silently learn another objective. Segments of labeled texts may stay unread:
    RoBERTa, too, separates texts by [SEP] alone.
    """
    spared = {*ignore, *read, *([_SEGMENTS] if kind_of(manifest.objective) else [])}
    unread = {name: reader for name, reader in _unread(manifest, model) if name not in spared}
    if unread:
        readers = "; ".join(f"{name} is for {reader}" for name, reader in unread.items())
        raise ConfigurationError(
            f"{key} has columns that this model does not read: {readers}. Add the reader, or "
            f"ignore the columns on purpose: data.ignore=[{', '.join([*ignore, *unread])}]"
        )


def unread_lines(manifests: Sequence[Manifest], model: ModelConfig) -> list[str]:
    """Return a line for the user if the model does not read the segments of labeled texts."""
    labeled = [manifest for manifest in manifests if kind_of(manifest.objective)]
    line = (
        f"{_SEGMENTS} is not read: the model has no segment embeddings (model.type_vocab_size), "
        "and only special tokens separate the texts of a row"
    )
    return (
        [line] if any(_SEGMENTS in dict(_unread(manifest, model)) for manifest in labeled) else []
    )


def _unread(manifest: Manifest, model: ModelConfig) -> Iterator[tuple[str, str]]:
    """Yield unread columns and heads, each with the part that would read it."""
    # columns
    objective = manifest.objective
    family = _family_of(model)
    collate = Collate.from_manifest(manifest)
    heads = set(objective.heads if objective else ()) - set(model.targets.values())
    compared = any(head.pool == "pair" for head in model.heads.values())

    for name, role in collate.roles.items():
        if name == _SEGMENTS:
            if not (
                model.type_vocab_size or model.languages or TYPE_IDS in family.optional or compared
            ):
                yield name, "segment embeddings (model.type_vocab_size) or the pool pair of a head"
        elif name == "languages":
            if not model.languages:
                yield name, "language embeddings (model.languages)"
        elif role.head in heads:
            yield name, f"the head {role.head}"
        elif (
            not role.head
            and name in collate.fields
            and name not in names_of((*family.reads, *family.optional))
        ):
            yield name, f"a family that reads it, which {model.family} does not"
        elif role.use == "label" and not (role.of or role.head):
            kinds = TRAINING_KEYS.classes().values()
            readers = (kind.columns[name] for kind in kinds if name in kind.columns)
            yield name, next(readers, "a key of an extension that is not there")

    # heads without a column
    for head in sorted(heads - {role.head for role in collate.roles.values()}):
        yield head, "the head of that name, which the objective serves"


def refuse_unreadable(collate: Collate, model: ModelConfig, key: str) -> None:
    """Refuse a set whose batches have tensors that the model would misread or cannot read."""
    tensors = collate.tensor_names
    family = _family_of(model)
    for name, expected in family.unsupported.items():
        if name in tensors:
            raise ConfigurationError(f"{key}: {name}: {expected}")

    if "left_padding" in tensors:
        unfit = [
            f"model.heads.{head}" for head in model.heads if not HEADS.load_class(head).left_padding
        ]
        for part in unfit if family.left_padding else [f"model.family: {model.family}"]:
            raise ConfigurationError(
                f"{key}: {part} reads rows padded on the right only, and these are padded on the "
                "left: use another frame than xlnet"
            )

    # the number of segment types
    modes = "attention" in tensors
    table = model.type_vocab_size
    if modes and _PAIR_TYPES < table < MODE_TYPES:
        raise ConfigurationError(
            f"model.type_vocab_size: {key}: rows have attention modes: expected {MODE_TYPES} to "
            f"distinguish modes and segments, {_PAIR_TYPES} for segments alone, or 0 for neither; "
            f"got {table}"
        )

    needed = _PAIR_TYPES if ("segment_ids" if modes else "type_ids") in tensors else 0
    needed = _LEFT_PADDED_TYPES if "left_padding" in tensors and not modes else needed
    if 0 < table < needed:
        raise ConfigurationError(
            f"model.type_vocab_size: {key}: rows have the segment types 0 to {needed - 1}: "
            f"expected {needed} or more, or 0 for no segment embeddings; got {table}"
        )


def refuse_missing(collate: Collate, model: ModelConfig, key: str) -> None:
    """Refuse sets without a tensor that the family or a head reads."""
    parts = {f"model.family: {model.family}": _family_of(model)}
    parts |= {f"model.heads.{name}": HEADS.load_class(name) for name in model.heads}

    for part, reader in parts.items():
        if missing := names_of(reader.reads) - collate.tensor_names - {SAMPLE_WORDS.name}:
            raise ConfigurationError(
                f"{key}: {part} needs {', '.join(sorted(missing))}, and these rows have no column "
                "for it: name sets of an objective that serves it, or remove it"
            )


def refuse_further_classes(sets: Sequence[tuple[str, Manifest]], model: ModelConfig) -> None:
    """Refuse a column whose labels (`Role.below`) exceed the scores of its head.

    `sets`: description (for messages) and manifest of each set. Only shapes are computed.
    """
    # columns with more labels than every head can distinguish
    columns = [
        (where, column, target, role.below)
        for where, manifest in sets
        for column, role in manifest.roles.items()
        for target in set(model.targets.values())
        if role.head == target and isinstance(role.below, int) and role.below > _LABELS_OF_ANY_HEAD
    ]
    if not columns:
        return

    # compare with the scores of their heads
    with torch.device("meta"):
        heads = Model(model, sets[0][1].tokenizer.vocab_size).heads
    for where, column, target, classes in columns:
        for name in (name for name, of_head in model.targets.items() if of_head == target):
            known = heads[name].label_limit(model.dim)
            if known is not None and classes > known:
                raise ConfigurationError(
                    f"model.heads.{name} has scores for {known} classes, and the column {column} "
                    f"of {where} has labels below {classes}: give the head {classes} classes, or "
                    f"make the set with labels below {known}"
                )


def _family_of(model: ModelConfig) -> Any:
    return FAMILIES.load_class(model.family)
