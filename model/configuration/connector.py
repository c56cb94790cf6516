"""Configuration of the way from an encoder's states to the attention of a decoder."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from model.configuration.key_types import STRICT, Width

__all__ = ["ConnectorConfig"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class ConnectorConfig:
    """Maps between the states of an encoder and the attention of a decoder, which may have another width."""

    hidden_dim: Width | None = None
    """Inner width of two maps with the activation between them and a norm after them; null = one linear map."""
