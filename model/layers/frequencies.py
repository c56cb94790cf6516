"""Frequencies of waves over places, and their scaling for rows longer than those of the first training."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from clozeline.model.configuration.position import ScalingConfig


def frequencies(width: int, theta: float | Tensor, device: torch.device) -> Tensor:
    """Return theta^(-2i / width) for i below width / 2: radians a place, fp32."""
    exponents = torch.arange(0, width, 2, dtype=torch.int64, device=device).float() / width
    return 1.0 / theta**exponents


def scale_frequencies(scaling: ScalingConfig, width: int, theta: float, positions: Tensor) -> Tensor:
    """Return the frequencies [width / 2] of rotary positions, as one kind of scaling changes them.

    Args:
        scaling: the kind and its numbers.
        width: of a head.
        theta: base of the wave lengths.
        positions: place ids, any shape; only `dynamic` reads them: all rows of a batch turn by its largest place.
    """
    plain, old = frequencies(width, theta, positions.device), scaling.original_maximum or 0
    match scaling.kind:
        case "linear":
            return plain / scaling.factor
        case "dynamic":
            places = (positions.max() + 1).clamp(min=old)
            growth = scaling.factor * places / old - (scaling.factor - 1)
            return frequencies(width, theta * growth ** (width / (width - 2)), positions.device)
        case "llama3":
            turns = old * plain / (2 * math.pi)
            low, high = scaling.low_freq_factor, scaling.high_freq_factor
            kept = ((turns - low) / (high - low)).clamp(0, 1)
        case "yarn":
            kept = 1 - _yarn_ramp(scaling, width, theta, positions.device)
    return kept * plain + (1 - kept) * plain / scaling.factor


def attention_factor(scaling: ScalingConfig) -> float:
    """Return the factor of queries and keys beside their rotation: YaRN's attention factor, else 1."""
    if scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.mscale and scaling.mscale_all_dim:
        return _log_growth(scaling.mscale, scaling.factor) / _log_growth(scaling.mscale_all_dim, scaling.factor)
    return _log_growth(1.0, scaling.factor)


def _log_growth(slope: float, factor: float) -> float:
    return 0.1 * slope * math.log(factor) + 1.0


def _yarn_ramp(scaling: ScalingConfig, width: int, theta: float, device: torch.device) -> Tensor:
    """Return the share of interpolation of each frequency [width / 2]: 0 at the fast ones, 1 at the slow ones."""
    low, high = (_pair_of(turns, scaling, width, theta) for turns in (scaling.beta_fast, scaling.beta_slow))
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    pairs = torch.arange(width // 2, dtype=torch.float32, device=device)
    return ((pairs - low) / (high - low or 0.001)).clamp(0, 1)


def _pair_of(turns: float, scaling: ScalingConfig, width: int, theta: float) -> float:
    """Return the pair, as a fraction, whose wave makes this many turns within the rows of the first training."""
    places = scaling.original_maximum or 0
    return width * math.log(places / (turns * 2 * math.pi)) / (2 * math.log(theta))
