import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.rope_keys import read_rotation, single_value, write_rotation
from clozeline.model.configuration.position import PositionConfig, ScalingConfig


def test_one_value_of_several_keys():
    assert single_value("llama", {}, 7) == 7
    assert single_value("llama", {"a": 3, "b": 3}, 7) == 3
    with pytest.raises(ConfigurationError, match="contradict each other: a 3, b 4; keep the correct one"):
        single_value("llama", {"a": 3, "b": 4}, 7)


def test_the_former_pair_is_read():
    plain = {"rope_theta": 50.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "max_position_embeddings": 8}
    assert read_rotation("llama", plain) == {
        "position.theta": 50.0,
        "position.scaling.kind": "linear",
        "position.scaling.factor": 2.0,
    }
    assert read_rotation("llama", {}) == {"position.theta": 10000.0}


def test_both_forms_are_written():
    scaling = ScalingConfig(kind="yarn", factor=2.0, original_maximum=8, attention_factor=1.5)
    written = write_rotation(PositionConfig(kind="rope", theta=50.0, scaling=scaling))
    assert written["rope_parameters"] == written["rope_scaling"]
    assert written["rope_scaling"]["original_max_position_embeddings"] == 8
    assert "mscale" not in written["rope_scaling"]
    dynamic = ScalingConfig(kind="dynamic", factor=2.0, original_maximum=8)
    written = write_rotation(PositionConfig(kind="rope", scaling=dynamic))
    assert written["max_position_embeddings"] == 8
    assert written["rope_scaling"] == {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0}
    assert "rope_scaling" not in write_rotation(PositionConfig(kind="rope"))
