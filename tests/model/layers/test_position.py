"""Buckets of T5 and scaled rotations against transformers, waves and rotations against their
formulas."""

import math

import pytest
import torch
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models import t5
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

from clozeline.model.configuration.position import ScalingConfig
from clozeline.model.layers.position import (
    Alibi,
    Rope,
    Sinusoidal,
    rotate,
    t5_bucket,
)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "max_distance"), [(8, 20), (12, 50), (32, 128)])
def test_t5_buckets(buckets, max_distance, causal):
    distances = torch.arange(-600, 601)
    found = t5_bucket(distances, buckets, max_distance, causal)
    bucket = t5.modeling_t5.T5Attention._relative_position_bucket
    assert torch.equal(found, bucket(distances, not causal, buckets, max_distance))
    assert {*found.tolist()} == {*range(buckets)} - (set() if causal else {buckets // 2})


@pytest.mark.parametrize("heads", [1, 4, 6, 8, 12, 20])
def test_alibi_falls_on_both_sides_as_mpt_does_on_one(heads):
    places = torch.arange(9)[None]
    found = Alibi(heads).bias(places, places)
    # at the last position, MPT's row of keys
    wanted = build_mpt_alibi_tensor(heads, 9)[:, 0]

    torch.testing.assert_close(found[0, :, 8], wanted)
    torch.testing.assert_close(found, found.transpose(2, 3))


def test_waves_against_fp64():
    """Sines and cosines in turn, or all sines and then all cosines."""
    places = torch.tensor([[0, 3, 4095]])
    interleaved = Sinusoidal(6).embed(places)
    halves = Sinusoidal(6, "halves").embed(places)

    assert interleaved.dtype == halves.dtype == torch.float32

    for row, place in enumerate((0, 3, 4095)):
        angles = [place / 10000 ** (2 * pair / 6) for pair in range(3)]
        sines = [math.sin(angle) for angle in angles]
        cosines = [math.cos(angle) for angle in angles]
        assert halves[0, row].tolist() == pytest.approx([*sines, *cosines], abs=1e-7)
        assert interleaved[0, row, ::2].tolist() == pytest.approx(sines, abs=1e-7)
        assert interleaved[0, row, 1::2].tolist() == pytest.approx(cosines, abs=1e-7)


KEPT = {"original_maximum": 16}
SCALED = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.5, **KEPT},
    "llama3": {"factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 4.0, **KEPT},
    "yarn": {"factor": 4.0, **KEPT},
    "yarn edge": {"factor": 4.0, "beta_fast": 2.0, "beta_slow": 1.9, **KEPT},
    "yarn wide": {"factor": 4.0, "beta_fast": 3.0, "beta_slow": 0.2, "truncate": False, **KEPT},
    "yarn factor": {"factor": 4.0, "attention_factor": 0.7, **KEPT},
    "yarn mscale": {"factor": 4.0, "mscale": 0.5, "mscale_all_dim": 1.3, **KEPT},
    "longrope": {
        "factor": 4.0,
        "short_factor": (1.5, 1.2, 3.0, 2.0),
        "long_factor": (3.0, 9.0, 2.0, 5.0),
        **KEPT,
    },
    "longrope factor": {
        "factor": 4.0,
        "attention_factor": 0.7,
        "short_factor": (1.0,) * 4,
        "long_factor": (2.0,) * 4,
        **KEPT,
    },
}


@pytest.mark.parametrize("longest", [5, 16, 17, 40])
@pytest.mark.parametrize("case", SCALED)
def test_scaled_rotations_are_those_of_transformers(case, longest):
    kind = case.split()[0]
    keys = SCALED[case]
    form = {"rope_type": kind, "rope_theta": 50.0} | {
        {"original_maximum": "original_max_position_embeddings"}.get(key, key): list(value)
        if isinstance(value, tuple)
        else value
        for key, value in keys.items()
    }

    settings = LlamaConfig(
        hidden_size=16, num_attention_heads=2, max_position_embeddings=16, rope_parameters=form
    )
    waves, length = ROPE_INIT_FUNCTIONS[kind](settings, torch.device("cpu"), seq_len=longest)
    places = torch.arange(longest)[None]
    cosines, sines = Rope(8, 50.0, ScalingConfig(kind=kind, **keys)).rotation(places)
    angles = torch.outer(torch.arange(longest).float(), waves).repeat(1, 2)

    assert torch.allclose(cosines[0, 0], length * angles.cos(), atol=2e-5)
    assert torch.allclose(sines[0, 0], length * angles.sin(), atol=2e-5)


def test_pairs_of_components_are_turned_and_the_rest_stays():
    """As complex numbers; the pair i has the frequency theta^(-2i / width)."""
    x = torch.randn(1, 2, 3, 6, dtype=torch.float64)
    places = torch.tensor([[0, 2, 7]])
    found = rotate(x, Rope(4, 9.0).rotation(places))

    assert found.dtype == torch.float64

    turns = torch.polar(torch.ones(3, 2), places[0][:, None] * torch.tensor([1.0, 9.0**-0.5]))
    turned = torch.complex(x[..., :2], x[..., 2:4]) * turns

    assert torch.allclose(
        found, torch.cat((turned.real, turned.imag, x[..., 4:]), dim=-1), atol=1e-5
    )
