import random

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from tests.model.checkpoints.published import difference, edit_config, export_to, loaded, odd_llama, saved


def options(draw, found):
    heads = found["num_attention_heads"]
    theta = draw.choice([50.0, 1e4])
    return {"num_attention_heads": 2 * heads, "rope_parameters": {"rope_type": "default", "rope_theta": theta}}


LENGTHS = {"original_max_position_embeddings": 8}
SCALED = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.5},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTHS},
    "yarn": {"factor": 4.0, **LENGTHS},
    "yarn wide": {"factor": 4.0, "beta_fast": 3.0, "beta_slow": 0.2, "truncate": False, **LENGTHS},
    "yarn factor": {"factor": 4.0, "attention_factor": 0.7, **LENGTHS},
    "yarn mscale": {"factor": 4.0, "mscale": 0.5, "mscale_all_dim": 1.3, **LENGTHS},
}


def scaled(kind):
    return {"rope_type": kind.split()[0], "rope_theta": 50.0, **SCALED[kind]}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("biases", [True, False])
def test_ties_and_biases(tmp_path, tied, biases):
    theirs = saved(tmp_path, "llama", tie_word_embeddings=tied, attention_bias=biases, mlp_bias=not biases)
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_smollm_is_a_tied_llama(tmp_path):
    theirs = saved(tmp_path, "llama", **odd_llama(random.Random(1)), tie_word_embeddings=True)
    checkpoint = read_checkpoint(tmp_path)
    assert (checkpoint.config.kv_heads, checkpoint.config.head_width, checkpoint.config.tied) == (3, 10, True)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


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
        (
            {"rope_scaling": scaled("llama3")},
            "contradict each other: rope_parameters {}, rope_scaling {'kind': 'llama3'",
        ),
        ({"rope_parameters": {"type": "yarn"}}, "rope_parameters: yarn needs the keys factor, original_max_position"),
        (
            {"rope_parameters": {"rope_type": "proportional"}},
            "rope_type: expected one of default, linear, dynamic, llama3",
        ),
        ({"rope_parameters": scaled("linear") | {"beta_fast": 3}}, "linear does not read beta_fast; it reads factor"),
        ({"rope_parameters": scaled("linear") | {"factor": 0.5}}, "position.scaling.factor"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor: expected 1.0"),
        ({"rope_parameters": [1]}, "expected keys and values"),
    ],
    ids=["theta", "two thetas", "two kinds", "missing", "unknown", "other kind", "range", "part", "list"],
)
def test_rope_keys_that_contradict_or_are_not_built_are_refused(tmp_path, keys, words):
    saved(tmp_path, "llama", rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError) as caught:
        read_checkpoint(tmp_path)
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_positions_beyond_those_of_the_first_training(tmp_path, kind):
    """Eleven places where the first training had eight; what goes out is read by both generations of the class."""
    changes = {"max_position_embeddings": 8 if kind == "dynamic" else 32, "num_hidden_layers": 3, "head_dim": 6}
    theirs = saved(tmp_path / "in", "llama", rope_parameters=scaled(kind), **changes)
    checkpoint = read_checkpoint(tmp_path / "in")
    assert difference(build_checkpoint(checkpoint), theirs) < 2e-5
    export = export_checkpoint(checkpoint)
    assert export.config["rope_parameters"] == export.config["rope_scaling"]
    assert scaled(kind).items() <= export.config["rope_parameters"].items()
    folder = export_to(tmp_path / "out", export)
    model, _ = loaded(folder, export.loader)
    assert difference(build_checkpoint(checkpoint), model) < 2e-5
    for key in ("rope_parameters", "rope_scaling"):
        edit_config(folder, **{key: None})
        assert read_checkpoint(folder).config == checkpoint.config
        edit_config(folder, **export.config)


@pytest.mark.parametrize("kind", ["linear", "dynamic", "llama3", "yarn"])
def test_scaling_is_seen(tmp_path, kind):
    theirs = saved(tmp_path, "llama", rope_parameters=scaled(kind), max_position_embeddings=8)
    edit_config(tmp_path, rope_parameters={"rope_type": "default", "rope_theta": 50.0})
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) > 1e-3


def test_a_long_batch_leaves_no_trace_in_a_short_one(tmp_path):
    saved(tmp_path, "llama", rope_parameters=scaled("dynamic"), max_position_embeddings=8)
    model = build_checkpoint(read_checkpoint(tmp_path))

    def logits(columns):
        ids = torch.arange(columns)[None] + 4
        with torch.no_grad():
            return model.logits({"input_ids": ids, "position_ids": torch.arange(columns)[None]})["lm"]

    before = logits(6)
    logits(20)
    assert torch.equal(logits(6), before)
