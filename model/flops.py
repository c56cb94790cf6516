"""Arithmetic of a training step, from the configuration alone."""

from __future__ import annotations

from model.config import ModelConfig

__all__ = ["training_flops"]


def training_flops(
    config: ModelConfig, vocab_rows: int, tokens: int, target_tokens: int = 0, labels: float | None = None
) -> float:
    """Floating-point operations of forward and backward for one row, matrix products only (a product counts twice).

    Args:
        config: the model's.
        vocab_rows: rows of the output projection.
        tokens: tokens of the row; of the encoder's row in an encoder_decoder.
        target_tokens: encoder_decoder: tokens of the decoder's row.
        labels: places that reach the vocabulary projection; None = every token of the labelled row.
    """
    if config.family == "encoder_decoder":
        layers = config.layers * _layer(config, tokens, tokens)
        layers += (config.decoder_layers or config.layers) * (
            _layer(config, target_tokens, target_tokens / 2) + _cross(config, target_tokens, tokens)
        )
        labelled: float = target_tokens
    else:
        layers = config.layers * _layer(config, tokens, tokens / 2 if config.family == "decoder" else tokens)
        labelled = tokens
    places = labelled if labels is None else labels
    heads = sum(places * _head(config, name, vocab_rows) for name in config.heads)
    return 3.0 * (layers + heads)  # the backward pass costs two products for each of the forward's


def _layer(config: ModelConfig, tokens: int, visible: float) -> float:
    wide, narrow = config.attention_heads * config.head_width, config.key_value_heads * config.head_width
    projections = 2 * config.dim * (2 * wide + 2 * narrow)
    feed_forward = 2 * (3 if config.gated else 2) * config.dim * config.ffn
    return tokens * (projections + feed_forward + 4 * wide * visible)


def _cross(config: ModelConfig, tokens: int, source: int) -> float:
    wide, narrow = config.attention_heads * config.head_width, config.key_value_heads * config.head_width
    return 4 * config.dim * (tokens * wide + source * narrow) + 4 * wide * tokens * source


def _head(config: ModelConfig, name: str, vocab_rows: int) -> float:
    if name == "masked_lm":
        return 2 * config.embedding_width * (config.dim + vocab_rows)
    return 2 * config.dim * vocab_rows
