import pytest

from model.checkpoints import build_checkpoint, read_checkpoint
from model.errors import ConfigurationError
from tests.model.checkpoints.published import difference, edit_config, saved

LLAMA3 = {"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_ties_and_biases(tmp_path, tied, biases):
    theirs = saved(tmp_path, "llama", tie_word_embeddings=tied, attention_bias=biases, mlp_bias=not biases)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize(
    "keys",
    [
        {"rope_parameters": None, "rope_theta": 50.0},
        {"rope_theta": 50.0},
        {"rope_parameters": None, "rope_theta": 50.0, "rope_scaling": {"type": "default"}},
        {"rope_scaling": {"rope_type": "default", "rope_theta": 50.0}},
    ],
    ids=["old", "both", "old with scaling", "two"],
)
def test_rope_keys_of_all_times(tmp_path, keys):
    theirs = saved(tmp_path, "llama", rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    edit_config(tmp_path, **keys)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"rope_theta": 60.0}, "contradict each other: rope_theta 60.0, rope_parameters.rope_theta 50.0"),
        ({"rope_scaling": {"rope_type": "default", "rope_theta": 70.0}}, "rope_scaling.rope_theta 70.0"),
        ({"rope_scaling": LLAMA3}, "rope_scaling: rotary positions scaled by 'llama3' are not built"),
        ({"rope_parameters": {"type": "yarn"}}, "rope_parameters: rotary positions scaled by 'yarn'"),
        ({"rope_parameters": [1]}, "expected keys and values"),
    ],
    ids=["theta", "two thetas", "llama3", "yarn", "list"],
)
def test_rope_keys_that_contradict_or_scale_are_refused(tmp_path, keys, words):
    saved(tmp_path, "llama", rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError) as caught:
        read_checkpoint(tmp_path)
    assert words in str(caught.value)
