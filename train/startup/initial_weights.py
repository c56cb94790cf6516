"""Initialize a model from the run or model folder in `model.init_from`.

The source may have another architecture: an encoder-decoder can start from an encoder, for example
(arXiv 1907.12461). Its tokenizer may be smaller.
"""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.configuration.computed_keys import differences
from clozeline.model.configuration.head import module_name
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.layers.position import has_bias
from clozeline.model.layers.vocabulary import table_rows
from clozeline.model.parameters.freezing import match_parameters
from clozeline.model.parameters.initial_values import generator_for, normal
from clozeline.model.parameters.sharding import UNSHARDED, Placement, full_shape
from clozeline.model.registries import FAMILIES, AdapterComponent
from clozeline.train.checkpoint.trained_model import TrainedModel, digest_of
from clozeline.train.configuration.model_source import row_multiple
from clozeline.train.data.sets.token_ids import OtherTokenizer

_BODY_PREFIX = "family."
_ADAPTER_PREFIX = "adapters."
_TOKEN_TABLE_KEY = "family.tokens.weight"
_NOISE_SHARE = 0.02
_HEAD_KEYS = frozenset({"tied", "out_dim", "out_scale"})
"""Configuration keys that belong to heads."""
_FREE_ACROSS: Final = frozenset(
    {
        "family",
        "decoder_layers",
        "decoder_dim",
        "decoder_attention_heads",
        "decoder_ffn_dim",
        "connector",
    }
    | {"connector.hidden_dim", "share.groups", "share.stacks"}
)
_CONNECTOR: Final = "family.connector."


@dataclass(frozen=True)
class RemappedWeights:
    """The weights of a source under the parameter names of the model to initialize."""

    config: ModelConfig
    """configuration of the stack to compare"""
    tensors: dict[str, Tensor]
    """name in the model → tensor; tensors that the model cannot use keep their names"""
    free: frozenset[str] = frozenset()
    """keys of the configuration that may differ"""
    lacking: tuple[str, ...] = ()
    """prefixes of names that the source may lack"""
    dropped: frozenset[str] = frozenset()
    """names of tensors that the model cannot use"""
    folder: Path = Path()
    """folder of the source"""
    notes: tuple[str, ...] = ()
    """tensors and keys of a published folder that the model does not have"""


@dataclass(frozen=True)
class LoadReport:
    """Which parameters of a model were copied, and which are new."""

    source: Path
    copied: list[str]
    fresh: list[str]
    """parameters that the source does not have: they keep their random values"""
    unused: list[str]
    """parameters of the source that the model does not have"""
    numbers: int
    """values of the copied parameters"""
    digest: str
    """xxh3-128 (hex) of names, shapes and values of the copied parameters, without an adapter"""
    added: range = range(0)
    """ids that the source does not have"""
    notes: tuple[str, ...] = ()
    """tensors and keys of a published folder that the model does not have"""

    def lines(self) -> list[str]:
        """Return the lines that a start prints."""
        size = f"{len(self.copied)} tensors ({self.numbers:,} parameters)"
        report = [f"weights    {size} from {self.source}"]
        report += [f"           new: {_summarize(self.fresh)}"] if self.fresh else []
        if self.added:
            ids = f"ids {self.added.start} to {self.added.stop - 1}"
            report.append(f"           new rows: {ids}, near the mean of the pieces of their texts")
        report += [f"           {note}" for note in self.notes]
        report += [f"           not used: {_summarize(self.unused)}"] if self.unused else []
        return report


def _summarize(names: Sequence[str]) -> str:
    body = sum(name.startswith(_BODY_PREFIX) for name in names)
    listed = [name for name in names if not name.startswith(_BODY_PREFIX)]
    return ", ".join([*listed, *([f"{body} tensors of the body"] if body else [])])


def translate_source(here: ModelConfig, source: TrainedModel) -> RemappedWeights:
    """Return the weights of a source under the names of the model that it initializes.

    `translate` maps the stacks of another architecture.

    Raises:
        ConfigurationError: the source has other settings, or another adapter.
    """
    there = config_without_adapter(source, "model.init_from", here.adapter)
    weights = translate(here, there, source.checkpoint.tensors)
    pairs = {
        key: pair
        for key, pair in differences(here, weights.config).items()
        if key not in _HEAD_KEYS | weights.free
    }
    if pairs:
        listed = "; ".join(
            f"model.{key}: {mine} here, {other} there" for key, (mine, other) in pairs.items()
        )
        raise ConfigurationError(
            f"model.init_from: {source.folder} is another model: {listed}; take its values"
        )

    return replace(weights, folder=source.folder, notes=source.checkpoint.notes)


def load_initial(
    model: Model,
    source: RemappedWeights,
    placement: Placement = UNSHARDED,
    parts: Sequence[str] = (),
    other: OtherTokenizer | None = None,
) -> LoadReport:
    """Copy the weights of a run or a model folder into a model.

    The bodies must match, parameter by parameter. Heads take what the source has; one with other
    labels there is new.

    Args:
        model: the model, with random weights.
        source: the weights, from `translate_source`.
        placement: where the parameters of the model are.
        parts: patterns of the parameters to copy, see `match_parameters`; empty: all; `none`: none.
        other: tokenizer that extends the source's; new ids start near the mean of their pieces.

    Raises:
        ConfigurationError: the source has other parameters in its body, or another vocabulary.
    """
    # compare the parameters of the bodies
    config = source.config
    tensors = source.tensors
    ours = dict(model.named_parameters())
    body = {name for name in {*ours, *tensors} if name.startswith(_BODY_PREFIX)} - source.dropped
    differing = sorted(name for name in body if name not in ours or name not in tensors)
    if differing := [
        name for name in differing if name not in ours or not name.startswith(source.lacking)
    ]:
        raise ConfigurationError(
            f"model.init_from: {source.folder}: only one of both models has "
            f"{', '.join(differing[:8])}"
        )

    added = range(0) if other is None else range(other.known, model.vocab_size)
    if not added:
        _refuse_other_rows(model, config, tensors, source.folder)

    # choose the parameters to copy
    here = model.config.heads
    there = config.heads
    other_labels = [
        name for name in here if name in there and here[name].labels != there[name].labels
    ]
    relabeled_heads = tuple(f"heads.{module_name(name)}." for name in other_labels)
    patterns = [part for part in parts if part != "none"]
    matched_names = {
        name for part in patterns for name in match_parameters("init_parts", part, ours)
    }
    allowed = matched_names if parts else ours.keys()
    copied = [
        name
        for name in ours
        if name in allowed and name in tensors and not name.startswith(relabeled_heads)
    ]

    # copy them, and extend tables over the vocabulary
    with torch.no_grad():
        for name in copied:
            with placement.gather([ours[name]]):
                _copy(ours[name], tensors[name], name, source.folder)
                if (
                    other is not None
                    and added
                    and _is_over_vocabulary(name)
                    and len(ours[name]) >= added.stop
                ):
                    ours[name][added.start : added.stop].copy_(_new_rows(tensors[name], other))

    # the digest is over the parameters that an adapter freezes
    fresh = [name for name in ours if name not in copied]
    base = [name for name in copied if not name.startswith(_ADAPTER_PREFIX)]
    unused = sorted(tensors.keys() - copied)
    numbers = sum(full_shape(ours[name]).numel() for name in copied)
    digest = digest_of(tensors, base)
    return LoadReport(source.folder, copied, fresh, unused, numbers, digest, added, source.notes)


def config_without_adapter(
    source: TrainedModel, key: str, adapter: AdapterComponent | None = None
) -> ModelConfig:
    """Return the configuration of a source without its adapter.

    Args:
        source: the run or model folder.
        key: the configuration key that names the source, for messages.
        adapter: the adapter to train further; the source may have no other one.

    Raises:
        ConfigurationError: the source has another adapter.
    """
    trained = source.checkpoint.config.adapter
    remedy = "export it, which merges the adapter, and give that folder"
    if trained is not None and source.stored is not None:
        raise ConfigurationError(f"{key}: {source.folder} trained an adapter: {remedy}")
    if trained is not None and (adapter is None or adapter.as_dict() != trained.as_dict()):
        remedy = f"remove model.adapter to train it further, or {remedy}"
        raise ConfigurationError(
            f"{key}: {source.folder} has another adapter, {trained.name}: {remedy}"
        )
    return replace(source.checkpoint.config, adapter=None)


def _refuse_other_rows(
    model: Model, config: ModelConfig, tensors: Mapping[str, Tensor], source: Path
) -> None:
    """Refuse a token table with another number of rows than this vocabulary has when padded."""
    rows = len(tensors[_TOKEN_TABLE_KEY])
    here = full_shape(dict(model.named_parameters())[_TOKEN_TABLE_KEY])[0]
    if rows not in (here, table_rows(model.vocab_size, config.vocab_multiple)):
        remedy = "make the shards with the tokenizer of that model"
        if multiple := row_multiple(rows, model.vocab_size):
            remedy = f"set model.vocab_multiple={multiple}, which pads this vocabulary to {rows}"
        raise ConfigurationError(
            f"model.init_from: {source} has {rows} rows in its token table, the shards' tokenizer "
            f"{model.vocab_size} ids (padded: {here}); {remedy}"
        )


def _copy(parameter: Tensor, tensor: Tensor, name: str, source: Path) -> None:
    if parameter.shape[1:] != tensor.shape[1:] or (
        parameter.shape != tensor.shape and not _is_over_vocabulary(name)
    ):
        shapes = f"{list(tensor.shape)} there, {list(parameter.shape)} here"
        raise ConfigurationError(f"model.init_from: {source}: {name} has shape {shapes}")
    rows = min(len(parameter), len(tensor))
    parameter[:rows].copy_(tensor[:rows])


def _new_rows(tensor: Tensor, other: OtherTokenizer) -> Tensor:
    """Return rows for new ids: the mean row of their pieces, plus noise.

    The noise has 2 % of the standard deviation of the table.
    """
    known_rows = tensor[: other.known].float()  # without the padding rows of the table
    rows = torch.stack(
        [
            known_rows[list(parts)].mean(0) if parts else known_rows.mean(0)
            for parts in other.parts.values()
        ]
    )
    if tensor.dim() == 1:
        return rows
    noise = torch.empty_like(rows)
    for row, token in zip(noise, other.parts, strict=True):
        normal(_NOISE_SHARE)(row, generator_for(token, "further row"))
    return rows + known_rows.std(0) * noise


def _is_over_vocabulary(name: str) -> bool:
    return name == _TOKEN_TABLE_KEY or (name.startswith("heads.") and ".projection." in name)


def translate(
    here: ModelConfig, there: ModelConfig, tensors: Mapping[str, Tensor]
) -> RemappedWeights:
    """Return the tensors of a model under the names of another.

    A model of one stack initializes the encoder of an encoder-decoder, and its decoder if widths
    and heads are equal: as many layers as both have, without cross-attention and connector, which
    are new. An encoder-decoder initializes an encoder from its encoder, a decoder from its decoder.
    An encoder and a decoder have the same parameters. Parameters of a position bias, as T5's table,
    are new if the direction differs. A model with an adapter is refused.
    """
    ours, theirs = (FAMILIES.load_class(config.family).stacks for config in (here, there))
    if ours == theirs or not (ours and theirs):
        return RemappedWeights(there, dict(tensors))
    if here.adapter is not None:
        raise ConfigurationError(
            f"model.adapter: expected a source of the family {here.family}, got {there.family}: "
            "train without an adapter first, and adapt that run"
        )

    # choose the source stack and the target stacks that can take it
    alike = (name for name, causal in theirs.items() if causal in ours.values())
    source = next(alike, next(iter(theirs)))
    source_config = there.decoder if source == "decoder" else there
    widths = operator.attrgetter("dim", "attention_heads", "ffn_dim")
    targets = [
        name for name in ours if name != "decoder" or widths(here.decoder) == widths(source_config)
    ]

    # rename the tensors of the stack; drop those that no target has
    biased = has_bias(source_config)
    renamed = {}
    dropped = set()
    prefix = f"family.{source}."

    for name, tensor in tensors.items():
        if not name.startswith(tuple(f"family.{stack}." for stack in theirs)):
            renamed[name] = tensor
            if name.startswith(_CONNECTOR):
                dropped.add(name)
            continue

        stack_key = name.removeprefix(prefix)
        stacks = [
            stack
            for stack in targets
            if stack_key != name and _has_parameter(here, stack, stack_key)
        ]

        if biased and ".position." in f".{stack_key}":
            stacks = [stack for stack in stacks if ours[stack] == theirs[source]]

        renamed |= {f"family.{stack}.{stack_key}": tensor for stack in stacks}
        if not stacks:
            renamed[name] = tensor
            dropped.add(name)

    # names that may be missing in the source
    lacking: tuple[str, ...] = (
        ("family.decoder.", _CONNECTOR) if here.architecture == "encoder_decoder" else ()
    )

    if biased:
        parts = (
            [f"layers.{n}.position." for n in range(here.layers)]
            if here.position.per_layer
            else ["position."]
        )
        lacking += tuple(f"family.{stack}.{part}" for stack in ours for part in parts)

    return RemappedWeights(
        replace(source_config, family=there.family),
        renamed,
        _FREE_ACROSS,
        lacking,
        frozenset(dropped),
    )


def _has_parameter(here: ModelConfig, stack: str, stack_key: str) -> bool:
    first_name, _, layer_key = stack_key.partition(".")
    if first_name != "layers" or ".cross." in stack_key:
        return ".cross." not in stack_key
    return stack != "decoder" or (
        not here.share.stacks and int(layer_key.partition(".")[0]) < here.decoder_depth
    )
