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


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("offset", 2, "learned"),
        ("waves", "halves", "sinusoidal"),
        ("theta", 500.0, "rope"),
        ("buckets", 16, "t5"),
        ("max_distance", 64, "t5"),
        ("per_layer", True, "t5"),
        ("partial_rotary_factor", 0.5, "rope"),
        ("nope_layers", (1,), "rope"),
    ],
    ids=[
        "offset",
        "waves",
        "theta",
        "buckets",
        "max_distance",
        "per_layer",
        "partial_rotary_factor",
        "nope_layers",
    ],
)
def test_a_key_of_another_kind_is_refused(key, value, kind):
    assert getattr(PositionConfig(kind=kind, **{key: value}), key) == value
    with pytest.raises(
        ValidationError, match=rf"{key}: has no effect with kind 'none': .* set kind to {kind}"
    ):
        PositionConfig(kind="none", **{key: value})


def test_only_rotary_positions_are_scaled():
    scaling = ScalingConfig(kind="linear", factor=2.0)
    assert PositionConfig(kind="rope", scaling=scaling).limit is None
    with pytest.raises(ValidationError, match="scaling: has no effect with kind 'learned'"):
        PositionConfig(kind="learned", scaling=scaling)


def test_the_last_bucket_may_hold_one_distance():
    assert DisentangledConfig(buckets=8, max_distance=6).rows == 16
