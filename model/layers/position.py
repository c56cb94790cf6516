"""Position information: added to embeddings, rotating queries and keys, or biasing scores.

Every type is a `Position` whose unused methods return None. The model never computes position ids:
they come with the batch, so packed documents, left padding and shifted spans need no code here.
Ids [1, T] apply to all rows.
"""

import math

import torch
from torch import Tensor, nn

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import ScalingConfig


def frequencies(width: int, theta: float | Tensor, device: torch.device) -> Tensor:
    """Return theta^(-2i / width) for i below width / 2: radians per position, fp32."""
    return 1.0 / theta ** (
        torch.arange(0, width, 2, dtype=torch.int64, device=device).float() / width
    )


def scale_frequencies(
    scaling: ScalingConfig, width: int, theta: float, positions: Tensor
) -> Tensor:
    """Return the scaled frequencies [width / 2] of rotary positions.

    Only `dynamic` and `longrope` read the position ids, of any shape, and scale the batch by the
    highest.
    """
    unscaled = frequencies(width, theta, positions.device)
    old = scaling.original_maximum or 0
    match scaling.kind:
        case "linear":
            return unscaled / scaling.factor
        case "dynamic":
            longest = (positions.max() + 1).clamp(min=old)
            growth = scaling.factor * longest / old - (scaling.factor - 1)
            return frequencies(width, theta * growth ** (width / (width - 2)), positions.device)
        case "longrope":
            short, long = (
                torch.tensor(part, device=unscaled.device)
                for part in (scaling.short_factor, scaling.long_factor)
            )
            return unscaled / torch.where(positions.max() + 1 > old, long, short)
        case "llama3":
            rotations = old * unscaled / (2 * math.pi)
            low = scaling.low_freq_factor
            high = scaling.high_freq_factor
            # share of each frequency that stays: 1 for short waves, 0 for long ones
            share = ((rotations - low) / (high - low)).clamp(0, 1)
        case "yarn":
            share = 1 - _yarn_ramp(scaling, width, theta, positions.device)

    return share * unscaled + (1 - share) * unscaled / scaling.factor


def attention_factor(scaling: ScalingConfig) -> float:
    """Return the factor of rotated queries and keys, which is not 1 in YaRN and LongRoPE."""
    if scaling.kind not in ("yarn", "longrope"):
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    if scaling.kind == "longrope":
        return math.sqrt(1 + math.log(scaling.factor) / math.log(scaling.original_maximum or 2))
    if scaling.mscale and scaling.mscale_all_dim:
        return _log_growth(scaling.mscale, scaling.factor) / _log_growth(
            scaling.mscale_all_dim, scaling.factor
        )
    return _log_growth(1.0, scaling.factor)


def _log_growth(slope: float, factor: float) -> float:
    return 0.1 * slope * math.log(factor) + 1.0


def _yarn_ramp(scaling: ScalingConfig, width: int, theta: float, device: torch.device) -> Tensor:
    """Return the share of interpolation per frequency [width / 2]: 0 for fast, 1 for slow ones."""
    # fractional index of the pairs that rotate beta_fast and beta_slow times in the original
    # context
    maximum = scaling.original_maximum or 0
    low, high = (
        width * math.log(maximum / (rotations * 2 * math.pi)) / (2 * math.log(theta))
        for rotations in (scaling.beta_fast, scaling.beta_slow)
    )
    if scaling.truncate:
        low = math.floor(low)
        high = math.ceil(high)

    low = max(low, 0)
    high = min(high, width - 1)
    return (
        (torch.arange(width // 2, dtype=torch.float32, device=device) - low) / (high - low or 0.001)
    ).clamp(0, 1)


class Position(nn.Module):
    """No position information; subclasses override the methods."""

    def embed(self, positions: Tensor) -> Tensor | None:
        """Return vectors [B, T, width] to add to the embeddings of `positions` [B, T], or None."""
        return None

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return cosines and sines [B, 1, T, rotated components] for `rotate`, or None."""
        return None

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Return additive scores [B or 1, heads, Tq, Tk] between positions [B, T], or None."""
        return None

    @property
    def has_bias(self) -> bool:
        """Whether the class adds scores per head, which no fused kernel of documents takes."""
        return type(self).bias is not Position.bias


class Learned(Position):
    """A table of maximum + offset rows (BERT, GPT-2; offset 2 in BART)."""

    def __init__(self, width: int, maximum: int, offset: int) -> None:
        super().__init__()
        self.table = nn.Embedding(maximum + offset, width)
        self.offset = offset

    def embed(self, positions: Tensor) -> Tensor:
        return self.table(positions + self.offset)  # `add_host_shapes` has checked the range


class Sinusoidal(Position):
    """Fixed waves (arXiv 1706.03762): sines in even, cosines in odd columns, or in two halves."""

    def __init__(self, width: int, waves: str = "interleaved") -> None:
        super().__init__()
        self.width = width
        self.halves = waves == "halves"

    def embed(self, positions: Tensor) -> Tensor:
        """Return sin(p / 10000^(2i/width)) in column 2i and the cosine in 2i + 1.

        With halves, they are in columns i and i + width/2.
        """
        # fp64, as in published tables: fp32 angles are off by 6e-5 at position 1000
        columns = torch.arange(0, self.width, 2, dtype=torch.float64, device=positions.device)
        angles = positions[..., None] * 10000.0 ** (-columns / self.width)
        sines = angles.sin().float()
        cosines = angles.cos().float()
        if self.halves:
            return torch.cat((sines, cosines), dim=-1)
        return torch.stack((sines, cosines), dim=-1).flatten(-2)


class Rope(Position):
    """Rotary positions (arXiv 2104.09864): component i is paired with i + width / 2.

    Only the first `width` components of each head are rotated.
    """

    def __init__(self, width: int, theta: float, scaling: ScalingConfig | None = None) -> None:
        super().__init__()
        self.width = width
        self.theta = theta
        self.scaling = scaling

    def rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        # angles are fp32: bf16 is off by entire rotations at position 4000
        if self.scaling is None:
            waves = frequencies(self.width, self.theta, positions.device)
        else:
            waves = scale_frequencies(self.scaling, self.width, self.theta, positions)
        # one angle for both components of a pair, [B, 1, T, width]
        angles = positions[..., None].float() * waves
        both = torch.cat((angles, angles), dim=-1)[:, None]
        length = 1.0 if self.scaling is None else attention_factor(self.scaling)
        return length * both.cos(), length * both.sin()


class T5Bias(Position):
    """A learned score per head and bucket of the distance key - query (arXiv 1910.10683)."""

    def __init__(self, heads: int, buckets: int, max_distance: int, causal: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(buckets, heads)
        self.max_distance = max_distance
        self.causal = causal

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = keys[:, None, :] - queries[:, :, None]
        buckets = t5_bucket(distance, self.table.num_embeddings, self.max_distance, self.causal)
        return self.table(buckets).permute(0, 3, 1, 2)


class Alibi(Position):
    """A fixed penalty per head for each token of distance, both ways (arXiv 2108.12409)."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        distance = (keys[:, None, None, :] - queries[:, None, :, None]).abs()
        return distance * -alibi_slopes(self.heads, keys.device)[:, None, None]


def alibi_slopes(heads: int, device: torch.device) -> Tensor:
    """Return the penalty of each head: powers of 2 ** (-8 / heads) if heads are a power of 2.

    Of other numbers, the heads after the last power of 2 have every second slope of twice as many.
    """
    whole = 2 ** int(math.log2(heads))
    head = torch.arange(heads, device=device)
    steps = torch.where(head < whole, 2 * head + 2, 2 * (head - whole) + 1)
    return 2.0 ** (-4.0 * steps / whole)


def t5_bucket(distance: Tensor, buckets: int, max_distance: int, causal: bool) -> Tensor:
    """Return the bucket of each distance key - query: exact when near, logarithmic beyond.

    Args:
        distance: int64, any shape.
        buckets: number of buckets; both directions share them unless causal.
        max_distance: distance in tokens from which all share the last bucket.
        causal: later keys do not occur (they count as distance 0).

    Example:
        >>> t5_bucket(torch.tensor([-200, -9, -3, 0, 3]), 32, 128, causal=False).tolist()
        [15, 8, 3, 0, 19]
    """
    # one half of the buckets for each direction, unless causal
    start = torch.zeros_like(distance)

    if causal:
        span = (-distance).clamp(min=0)
    else:
        buckets //= 2
        start = (distance > 0) * buckets
        span = distance.abs()

    exact = buckets // 2
    # fp32 and truncation: rounding, or fp64, would move distances on an edge to the next bucket
    ratio = torch.log(span.clamp(min=1).float() / exact) / math.log(max_distance / exact)
    shared = (exact + (ratio * (buckets - exact)).long()).clamp(max=buckets - 1)
    return start + torch.where(span < exact, span, shared)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Rotate the first components of queries or keys [B, heads, T, head_dim] by their positions."""
    # pairs of the half-split layout: (first, second) becomes first cos - second sin, and so on
    cosines, sines = (part.to(x.dtype) for part in rotation)
    width = cosines.shape[-1]
    rotated = x[..., :width]
    unrotated = x[..., width:]
    first, second = rotated.chunk(2, dim=-1)
    rotated = rotated * cosines + torch.cat((-second, first), dim=-1) * sines
    return torch.cat((rotated, unrotated), dim=-1) if unrotated.shape[-1] else rotated


def build_position(config: ModelConfig, causal: bool) -> Position:
    """Build the position module of one stack."""
    position = config.position
    match position.kind:
        case "learned":
            return Learned(config.embedding_width, position.maximum, position.offset)
        case "sinusoidal":
            return Sinusoidal(config.embedding_width, position.waves)
        case "rope":
            return Rope(config.rotated_width, position.theta, position.scaling)
        case "t5":
            return T5Bias(config.attention_heads, position.buckets, position.max_distance, causal)
        case "alibi":
            return Alibi(config.attention_heads)
        case "none":
            return Position()


def has_bias(config: ModelConfig) -> bool:
    """Return whether the positions of a model add scores per head."""
    with torch.device("meta"):
        return build_position(config, causal=False).has_bias


def build_local_position(config: ModelConfig, other: Position) -> Position:
    """Return the positions of local layers: those of `other` layers, or another theta."""
    theta = None if config.local is None else config.local.theta
    return other if theta is None else Rope(config.rotated_width, theta)
