"""Frequencies of rotary and sinusoidal positions, and their scaling for longer contexts."""

import math

import torch
from torch import Tensor

from clozeline.model.configuration.position import ScalingConfig


def frequencies(width: int, theta: float | Tensor, device: torch.device) -> Tensor:
    """Return theta^(-2i / width) for i below width / 2: radians per position, fp32."""
    return 1.0 / theta ** (torch.arange(0, width, 2, dtype=torch.int64, device=device).float() / width)


def scale_frequencies(scaling: ScalingConfig, width: int, theta: float, positions: Tensor) -> Tensor:
    """Return the scaled frequencies [width / 2] of rotary positions.

    Only `dynamic` and `longrope` read the position ids, of any shape, and scale the batch by its largest.
    """
    plain, old = frequencies(width, theta, positions.device), scaling.original_maximum or 0
    match scaling.kind:
        case "linear":
            return plain / scaling.factor
        case "dynamic":
            longest = (positions.max() + 1).clamp(min=old)
            growth = scaling.factor * longest / old - (scaling.factor - 1)
            return frequencies(width, theta * growth ** (width / (width - 2)), positions.device)
        case "longrope":
            short, long = (
                torch.tensor(part, device=plain.device) for part in (scaling.short_factor, scaling.long_factor)
            )
            return plain / torch.where(positions.max() + 1 > old, long, short)
        case "llama3":
            turns = old * plain / (2 * math.pi)
            low, high = scaling.low_freq_factor, scaling.high_freq_factor
            # share of each frequency that is kept: 1 for short waves, 0 for long ones
            share = ((turns - low) / (high - low)).clamp(0, 1)
        case "yarn":
            share = 1 - _yarn_ramp(scaling, width, theta, positions.device)
    return share * plain + (1 - share) * plain / scaling.factor


def attention_factor(scaling: ScalingConfig) -> float:
    """Return the factor of queries and keys next to their rotation: that of YaRN and LongRoPE, otherwise 1."""
    if scaling.kind not in ("yarn", "longrope"):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.kind == "longrope":
        return math.sqrt(1 + math.log(scaling.factor) / math.log(scaling.original_maximum or 2))
    if scaling.mscale and scaling.mscale_all_dim:
        return _log_growth(scaling.mscale, scaling.factor) / _log_growth(scaling.mscale_all_dim, scaling.factor)
    return _log_growth(1.0, scaling.factor)


def _log_growth(slope: float, factor: float) -> float:
    return 0.1 * slope * math.log(factor) + 1.0


def _yarn_ramp(scaling: ScalingConfig, width: int, theta: float, device: torch.device) -> Tensor:
    """Return the share of interpolation of each frequency [width / 2]: 0 at the fast ones, 1 at the slow ones."""
    # fractional index of the pairs that make beta_fast and beta_slow turns within the original context length
    maximum = scaling.original_maximum or 0
    low, high = (
        width * math.log(maximum / (turns * 2 * math.pi)) / (2 * math.log(theta))
        for turns in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    return ((torch.arange(width // 2, dtype=torch.float32, device=device) - low) / (high - low or 0.001)).clamp(0, 1)
