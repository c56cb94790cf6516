import pytest
from pydantic import ValidationError

from clozeline.model.configuration.position import DisentangledConfig, PositionConfig, ScalingConfig


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"kind": "linear", "factor": 2.0, "beta_fast": 3.0},
            "beta_fast: has no effect with kind 'linear'",
        ),
        (
            {"kind": "dynamic", "factor": 2.0},
            "original_maximum: dynamic needs the context length",
        ),
        (
            {"kind": "yarn", "factor": 2.0},
            "original_maximum: yarn needs the context length",
        ),
        (
            {"kind": "longrope", "factor": 2.0, "original_maximum": 8},
            "longrope needs short_factor and long_factor",
        ),
        (
            {"kind": "llama3", "factor": 2.0, "original_maximum": 8, "low_freq_factor": 4.0},
            "expected more than low_freq_factor 4.0, got 4.0",
        ),
    ],
    ids=["unread", "dynamic", "yarn", "longrope", "llama3"],
)
def test_scalings_that_cannot_be_are_refused(keys, message):
    with pytest.raises(ValidationError) as caught:
        ScalingConfig(**keys)
    assert message in str(caught.value)


def test_only_rotary_positions_are_scaled():
    scaling = ScalingConfig(kind="linear", factor=2.0)
    assert PositionConfig(kind="rope", scaling=scaling).limit is None
    with pytest.raises(ValidationError, match="scaling: has no effect with kind 'learned'"):
        PositionConfig(kind="learned", scaling=scaling)


def test_the_last_bucket_may_hold_one_distance():
    assert DisentangledConfig(buckets=8, max_distance=6).rows == 16
