"""Count forward FLOPs: matrix products from modules, attention from the configuration."""

from torch import nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.parameters.sharding import full_shape


def matrix_flops(*modules: nn.Module) -> float:
    """Return the FLOPs of modules for one position, which uses each matrix entry once.

    Example (a product of 3 x 2 entries; the bias adds nothing):
        >>> matrix_flops(nn.Linear(2, 3))
        12.0
    """
    shapes = (full_shape(weight) for module in modules for weight in module.parameters())
    return 2.0 * sum(shape.numel() for shape in shapes if len(shape) == 2)


def stack_flops(
    config: ModelConfig, tokens: int, *, causal: bool = False, source: int = 0
) -> float:
    """Return the forward FLOPs of one row in a stack, including the projection into its width.

    In a causal stack, a token sees half of the row on average. `source` is that of `layer_flops`.
    """
    window = tokens if config.local is None else 2 * config.local.window + 1
    visible = [
        min(window, tokens) if config.is_local(number) else tokens
        for number in range(config.layers)
    ]
    total = sum(
        layer_flops(config, tokens, seen / 2 if causal else seen, source) for seen in visible
    )
    if config.embedding_width != config.dim:
        total += 2 * tokens * config.embedding_width * config.dim
    return total + _deberta_flops(config, tokens)


def layer_flops(config: ModelConfig, tokens: int, visible: float, source: int = 0) -> float:
    """Return the forward FLOPs of one layer for one row: matrix products only.

    A multiply-add counts as two.

    Args:
        config: configuration of the model.
        tokens: tokens of the row.
        visible: positions that a token sees on average: the entire row, or half of it if causal.
        source: tokens of the encoder's row, read by cross-attention; 0 = no cross-attention.

    Example (one head of width 2, feed-forward 3, two tokens that see both):
        >>> sizes = {"dim": 2, "layers": 1, "attention_heads": 1, "ffn_dim": 3}
        >>> c = ModelConfig(family="encoder", heads={"masked_lm": 1.0}, **sizes)
        >>> # 2 x (2 x 4 x 4 projections + 2 x 2 x 6 feed-forward + 4 x 2 x 2 attention)
        >>> layer_flops(c, 2, 2.0)
        144.0
    """
    query_width = config.attention_heads * config.head_width
    key_width = config.key_value_heads * config.head_width
    projections = 2 * config.dim * (2 * query_width + 2 * key_width)
    feed_forward = 2 * (3 if config.gated else 2) * config.dim * config.ffn_dim
    total = tokens * (projections + feed_forward + 4 * query_width * visible)
    if source:
        cross_projections = 4 * config.dim * (tokens * query_width + source * key_width)
        total += cross_projections + 4 * query_width * tokens * source
    return total


def _deberta_flops(config: ModelConfig, tokens: int) -> float:
    """Return the FLOPs that DeBERTa adds: position scores, convolution, steps of the mask decoder.

    The projections of relative positions are needed once per batch, and are not counted.
    """
    chosen = config.position.disentangled
    if chosen is None:
        return 0.0
    further_steps = (chosen.mask_decoder or 1) - 1
    scores = (
        2.0 * tokens * config.attention_heads * config.head_width * chosen.rows * (chosen.terms - 1)
    )
    convolution = 2.0 * tokens * config.dim**2 * (chosen.convolution or 0)
    return (
        convolution
        + (config.layers + further_steps) * scores
        + further_steps * layer_flops(config, tokens, tokens)
    )
