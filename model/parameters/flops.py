"""Count the FLOPs of a forward pass: matrix products from the modules, attention from the configuration."""

from torch import nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.sharding import full_shape


def matrix_flops(*modules: nn.Module) -> float:
    """Return the FLOPs of modules for one position, where each matrix entry is used once.

    Example (a product of 3 x 2 entries; the bias adds none):
        >>> matrix_flops(nn.Linear(2, 3))
        12.0
    """
    shapes = (full_shape(weight) for module in modules for weight in module.parameters())
    return 2.0 * sum(shape.numel() for shape in shapes if len(shape) == 2)


def stack_flops(
    config: ModelConfig, tokens: int, *, causal: bool = False, source: int = 0
) -> float:
    """Return the FLOPs of one row's forward pass through a stack and the projection into its width.

    In a causal stack a token sees half of the row on average. `source` is that of `layer_flops`.
    """
    near = tokens if config.local is None else 2 * config.local.window + 1
    visible = [
        min(near, tokens) if config.is_local(number) else tokens for number in range(config.layers)
    ]
    plain = sum(
        layer_flops(config, tokens, seen / 2 if causal else seen, source) for seen in visible
    )
    if config.embedding_width != config.dim:
        plain += 2 * tokens * config.embedding_width * config.dim
    return plain + _deberta_flops(config, tokens)


def layer_flops(config: ModelConfig, tokens: int, visible: float, source: int = 0) -> float:
    """Return the FLOPs of one layer's forward pass for one row: matrix products only, a multiply-add is two.

    Args:
        config: the model's.
        tokens: tokens of the row.
        visible: positions that a token sees on average: the entire row, or half of it if causal.
        source: tokens of the encoder's row, read by cross-attention; 0 = there is none.

    Example (one head of width 2, feed-forward 3, two tokens that see both):
        >>> c = ModelConfig(family="encoder", dim=2, layers=1, attention_heads=1, ffn_dim=3, heads={"masked_lm": 1.0})
        >>> layer_flops(c, 2, 2.0)  # 2 x (2 x 4 x 4 projections + 2 x 2 x 6 feed-forward + 4 x 2 x 2 attention)
        144.0
    """
    wide = config.attention_heads * config.head_width
    narrow = config.key_value_heads * config.head_width
    projections = 2 * config.dim * (2 * wide + 2 * narrow)
    feed_forward = 2 * (3 if config.gated else 2) * config.dim * config.ffn_dim
    per_row = tokens * (projections + feed_forward + 4 * wide * visible)
    return per_row + (
        4 * config.dim * (tokens * wide + source * narrow) + 4 * wide * tokens * source
        if source
        else 0
    )


def _deberta_flops(config: ModelConfig, tokens: int) -> float:
    """Return what DeBERTa adds: position scores, the convolution, and all steps of the mask decoder but the first.

    The projections of relative positions, needed once per batch, are not counted.
    """
    chosen = config.position.disentangled
    if chosen is None:
        return 0.0
    further = (chosen.mask_decoder or 1) - 1
    scores = (
        2.0 * tokens * config.attention_heads * config.head_width * chosen.rows * (chosen.terms - 1)
    )
    convolution = 2.0 * tokens * config.dim**2 * (chosen.convolution or 0)
    return (
        convolution
        + (config.layers + further) * scores
        + further * layer_flops(config, tokens, tokens)
    )
