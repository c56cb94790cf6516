"""Record what a family passes to its layers, so that early exit and token pruning can run the layers one by one."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import Model
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.parameters.flops import matrix_flops


class LayerCall(NamedTuple):
    """The inputs of one layer, besides the states."""

    layer: nn.Module
    plan: AttentionPlan
    rest: tuple[Any, ...]
    """further arguments, the same for all rows"""


class LayerInputs(NamedTuple):
    """A batch before its first layer."""

    states: Tensor
    """[B, T, dim], the output of the embeddings"""
    calls: list[LayerCall]
    """the layers in order; shared ones occur several times"""
    tensors: Mapping[str, Tensor]
    """the batch, after `add_host_shapes`"""
    tokens: Tensor
    """int64 [B], tokens of each row; a row without tokens is read as one"""


def find_body(model: Model, purpose: str) -> Any:
    """Return the module whose `layers` turn embeddings into the states that heads read; `purpose` is for messages.

    Raises:
        ConfigurationError: the family is not one stack of equal layers, or an adapter adds positions to its rows.
    """
    body = model.family.find_body(purpose)
    if model.positions_taken:
        raise ConfigurationError(
            f"{purpose}: expected rows of tokens alone, got {model.positions_taken} positions of the adapter "
            f"'{model.adapter_in_use}': deactivate it by use_adapter(None)"
        )
    return body


def record_layers(model: Model, tensors: Mapping[str, Tensor], purpose: str) -> LayerInputs:
    """Compute a batch up to the first layer, and return what each layer would be called with.

    Raises:
        BatchError: packed documents or padding on the left, or a position id is beyond the table.
    """
    tensors = add_host_shapes(tensors, model.position_limit, model.host_tensors)
    if unread := sorted({"document_ids", "left_padding"} & tensors.keys()):
        raise BatchError(f"{unread[0]}: {purpose} expected rows of one text each, padded on the right; got this tensor")
    calls: list[LayerCall] = []
    states: list[Tensor] = []
    body = find_body(model, purpose)
    layers = body.layers
    body.layers = nn.ModuleList(_Recorder(layer, calls, states) for layer in layers)
    try:
        model.family(tensors)
    finally:
        body.layers = layers
    x = states[0]
    lengths = tensors["lengths"] if "lengths" in tensors else x.new_full((), x.shape[1]).long()
    return LayerInputs(x, calls, tensors, lengths.to(x.device).expand(len(x)).clamp(min=1))


class _Recorder(nn.Module):
    """A layer that returns its states as they are, and notes everything else that it was given."""

    def __init__(self, layer: nn.Module, calls: list[LayerCall], states: list[Tensor]) -> None:
        super().__init__()
        self.layer, self.calls, self.states = layer, calls, states
        self.position = getattr(layer, "position", None)  # the stack reads a layer's own bias

    def forward(self, x: Tensor, plan: AttentionPlan, *rest: object) -> Tensor:
        self.calls.append(LayerCall(self.layer, plan, rest))
        self.states.append(x)
        return x


def embedding_flops(model: Model, tokens: Tensor) -> Tensor:
    """Return the FLOPs [B] of the projection from the embeddings into the layers' width, float64."""
    body: Any = getattr(model.family, "stack", model.family)
    return tokens.double() * matrix_flops(body.embeddings.project)


def attention_flops(model: Model, layer: int, tokens: Tensor) -> Tensor:
    """Return the FLOPs [B] of a layer's scores and averages, without projections, for rows of `tokens` [B]; float64."""
    config, tokens = model.config, tokens.double()
    wide, chosen = config.attention_heads * config.head_width, config.position.disentangled
    visible = tokens
    if config.local is not None and config.is_local(layer):
        visible = tokens.clamp(max=2 * config.local.window + 1)
    visible = visible / 2 if model.family.architecture == "decoder" else visible
    relative = 0.0 if chosen is None else 2.0 * wide * chosen.rows * (chosen.terms - 1)
    return tokens * (4.0 * wide * visible + relative)
