"""Rotations that depend on the length of rows, on both sides of the first training's context
length."""

import pytest
import torch

from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published.peers import VOCABULARY, apart, edit_config, in_and_out, saved

LENGTHS = {"original_max_position_embeddings": 8}


SCALED = {
    "linear": {"factor": 3.0},
    "dynamic": {"factor": 2.5},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, **LENGTHS},
    "llama3 bounds": {"factor": 8.0, "low_freq_factor": 0.5, "high_freq_factor": 20.0, **LENGTHS},
    "yarn": {"factor": 4.0, **LENGTHS},
    "yarn edge": {"factor": 4.0, "beta_fast": 2.0, "beta_slow": 1.5, **LENGTHS},
    "yarn one scale": {"factor": 4.0, "mscale": 0.5, **LENGTHS},
    "yarn wide": {"factor": 4.0, "beta_fast": 3.0, "beta_slow": 0.2, "truncate": False, **LENGTHS},
    "yarn factor": {"factor": 4.0, "attention_factor": 0.7, **LENGTHS},
    "yarn mscale": {"factor": 4.0, "mscale": 0.5, "mscale_all_dim": 1.3, **LENGTHS},
}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 77.0,
    "short_factor": [1.1, 1.3, 2.7],
    "long_factor": [1.7, 3.1, 5.9],
}
CONTEXT = {"max_position_embeddings": 64, "original_max_position_embeddings": 16}


def farthest(model, theirs, *lengths):
    """The largest difference of the logits of rows of these lengths."""
    found = []

    for columns in lengths:
        ids = torch.randint(
            4, VOCABULARY, (2, columns), generator=torch.Generator().manual_seed(columns)
        )
        ours = {
            "input_ids": ids,
            "position_ids": torch.arange(columns)[None],
            "lengths": torch.tensor([columns] * 2),
        }
        with torch.no_grad():
            found.append(apart(model.logits(ours)["lm"], theirs(input_ids=ids).logits))

    return max(found)


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_positions(tmp_path, kind):
    """What goes out is read by both generations of the class.

    A long batch leaves no trace in a short one.
    """
    scaling = {"rope_type": kind.split()[0], "rope_theta": 50.0, **SCALED[kind]}
    sizes = {
        "max_position_embeddings": 8 if kind == "dynamic" else 32,
        "num_hidden_layers": 3,
        "head_dim": 6,
    }

    theirs = saved(tmp_path / "in", "llama", rope_parameters=scaling, **sizes)
    checkpoint, export, again = in_and_out(tmp_path, theirs)
    model = build_checkpoint(checkpoint)

    assert farthest(model, theirs, 6, 11, 20, 6) < 2e-5
    assert farthest(model, again, 6, 11) < 2e-5
    assert export.config["rope_parameters"] == export.config["rope_scaling"]
    assert scaling.items() <= export.config["rope_parameters"].items()

    for key in ("rope_parameters", "rope_scaling"):
        edit_config(tmp_path / "out", **{key: None})
        assert read_checkpoint(tmp_path / "out").config == checkpoint.config
        edit_config(tmp_path / "out", **export.config)


PART = {"short_factor": [1.1, 1.3], "long_factor": [1.7, 3.1], "partial_rotary_factor": 0.75}


@pytest.mark.parametrize("more", [{}, {"attention_factor": 0.7}, {"factor": 3.0}, PART])
def test_longrope(tmp_path, more):
    theirs = saved(tmp_path / "in", "phi3", rope_parameters={**LONGROPE, **more}, **CONTEXT)
    checkpoint, _, again = in_and_out(tmp_path, theirs)
    model = build_checkpoint(checkpoint)
    scaling = checkpoint.config.position.scaling

    assert (scaling.original_maximum, scaling.factor) == (16, more.get("factor", 4.0))
    assert farthest(model, theirs, 1, 11, 16, 17, 23, 11) < 1e-5
    assert farthest(model, again, 16, 17) < 1e-5


def test_former_keys_of_longrope(tmp_path):
    """Former names of the type, shares at the top, and a length outside of the mapping, which takes
    precedence."""
    form = {**LONGROPE, **PART}
    saved(tmp_path, "phi3", rope_parameters=form, **CONTEXT)
    config = read_checkpoint(tmp_path).config

    assert config.rotated_width == 4

    share = {key: value for key, value in form.items() if key != "partial_rotary_factor"}

    for name in ("su", "yarn"):
        for key in ("rope_scaling", "rope_parameters"):
            old = {part: value for part, value in share.items() if part != "rope_type"} | {
                "type": name
            }
            edit_config(
                tmp_path,
                **{"rope_parameters": None, "rope_scaling": None, "rope_theta": 77.0, key: old},
                partial_rotary_factor=0.75,
            )

            assert read_checkpoint(tmp_path).config == config

    edit_config(tmp_path, rope_parameters={**form, "original_max_position_embeddings": 32})

    assert read_checkpoint(tmp_path).config.position.scaling.original_maximum == 16

    edit_config(tmp_path, original_max_position_embeddings=None, max_position_embeddings=8192)

    assert read_checkpoint(tmp_path).config.position.scaling.original_maximum == 4096
