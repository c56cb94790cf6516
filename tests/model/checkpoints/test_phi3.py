"""Fused projections of unequal parts, windows, and longrope on both sides of its first context length."""

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from tests.model.checkpoints.published import (
    VOCABULARY,
    apart,
    difference,
    edit_config,
    export_to,
    loaded,
    odd_llama,
    saved,
)


def options(draw, found):
    sizes = odd_llama(draw) | {"hidden_size": 36, "sliding_window": draw.choice([3, 4])}
    del sizes["head_dim"]
    return sizes


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 77.0,
    "short_factor": [1.1, 1.3, 2.7],
    "long_factor": [1.7, 3.1, 5.9],
}
LENGTHS = {"max_position_embeddings": 64, "original_max_position_embeddings": 16}


def logits(model, theirs, columns):
    ids = torch.randint(4, VOCABULARY, (2, columns), generator=torch.Generator().manual_seed(columns))
    ours = {"input_ids": ids, "position_ids": torch.arange(columns)[None], "lengths": torch.tensor([columns] * 2)}
    with torch.no_grad():
        return apart(model.logits(ours)["lm"], theirs(input_ids=ids).logits)


@pytest.mark.parametrize(
    "more", [{}, {"attention_factor": 0.7}, {"factor": 3.0}], ids=["lengths", "attention", "factor"]
)
def test_longrope_on_both_sides_of_the_first_context_length(tmp_path, more):
    theirs = saved(tmp_path / "in", "phi3", rope_parameters={**LONGROPE, **more}, **LENGTHS)
    checkpoint = read_checkpoint(tmp_path / "in")
    model = build_checkpoint(checkpoint)
    scaling = checkpoint.config.position.scaling
    assert (scaling.original_maximum, scaling.factor) == (16, more.get("factor", 4.0))
    for columns in (1, 11, 16, 17, 23, 11):  # no long batch leaves a trace
        assert logits(model, theirs, columns) < 1e-5
    folder = export_to(tmp_path / "out", export_checkpoint(checkpoint))
    again, report = loaded(folder, "AutoModelForCausalLM")
    assert report == {}
    assert max(logits(model, again, columns) for columns in (16, 17)) < 1e-5
    edit_config(
        folder, rope_parameters={**LONGROPE, **more, "long_factor": LONGROPE["short_factor"]}, rope_scaling=None
    )
    changed = build_checkpoint(read_checkpoint(folder))
    assert logits(changed, theirs, 16) < 1e-5
    assert logits(changed, theirs, 17) > 1e-3


def test_a_continuation_past_the_first_context_length_is_read_again(tmp_path):
    theirs = saved(tmp_path, "phi3", rope_parameters=LONGROPE, sliding_window=None, **LENGTHS)
    theirs.generation_config.eos_token_id = None
    model, prompts = build_checkpoint(read_checkpoint(tmp_path)), [[5, 6, 7], [9, 30, 11, 8, 20, 4, 17]]
    for prompt in prompts:
        (found,) = generate(model, [prompt], Decoding(max_tokens=20))
        expected = theirs.generate(torch.tensor([prompt]), max_new_tokens=20, do_sample=False, use_cache=False)
        assert [*prompt, *found.ids] == expected[0].tolist()


@pytest.mark.parametrize("name", ["su", "yarn"])
@pytest.mark.parametrize("key", ["rope_scaling", "rope_parameters"])
def test_former_names_of_longrope(tmp_path, name, key):
    theirs = saved(tmp_path, "phi3", rope_parameters=LONGROPE, **LENGTHS)
    config = read_checkpoint(tmp_path).config
    form = {"type" if part == "rope_type" else part: value for part, value in LONGROPE.items()} | {"type": name}
    edit_config(tmp_path, **{"rope_parameters": None, "rope_theta": 77.0, key: form})
    assert read_checkpoint(tmp_path).config == config
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


def test_the_length_outside_of_the_mapping_takes_precedence(tmp_path):
    saved(tmp_path, "phi3", rope_parameters=LONGROPE, **LENGTHS)
    edit_config(tmp_path, rope_parameters={**LONGROPE, "original_max_position_embeddings": 32})
    assert read_checkpoint(tmp_path).config.position.scaling.original_maximum == 16
    edit_config(tmp_path, original_max_position_embeddings=None, max_position_embeddings=8192)
    assert read_checkpoint(tmp_path).config.position.scaling.original_maximum == 4096


def test_no_window_and_null_are_one(tmp_path):
    theirs = saved(tmp_path, "phi3", sliding_window=None)
    assert read_checkpoint(tmp_path).config.local is None
    assert difference(build_checkpoint(read_checkpoint(tmp_path)), theirs) < 1e-5


@pytest.mark.parametrize("at_the_top", [True, False])
def test_a_part_of_each_head_is_rotated(tmp_path, at_the_top):
    """Phi-4-mini, with a divisor for each pair that rotates."""
    form = LONGROPE | {"short_factor": [1.1, 1.3], "long_factor": [1.7, 3.1], "partial_rotary_factor": 0.75}
    theirs = saved(tmp_path, "phi3", rope_parameters=form, **LENGTHS)
    if at_the_top:
        rest = {key: value for key, value in form.items() if key != "partial_rotary_factor"}
        edit_config(tmp_path, rope_parameters=rest, partial_rotary_factor=0.75)
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.config.rotated_width == 4
    for columns in (11, 23):
        assert logits(build_checkpoint(checkpoint), theirs, columns) < 1e-5
    again, report = loaded(export_to(tmp_path / "out", export_checkpoint(checkpoint)), "AutoModelForCausalLM")
    assert report == {}
    assert logits(build_checkpoint(checkpoint), again, 23) < 1e-5


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"rope_parameters": {"rope_type": "linear", "factor": 2.0}},
            "expected rope_type default or longrope, got 'linear'",
        ),
        (
            {"partial_rotary_factor": 0.5, "rope_parameters": None},
            "partial_rotary_factor: expected 2 or another even number of rotated .* 3 of 6",
        ),
        (
            {"rope_parameters": LONGROPE | {"short_factor": [1.0]}},
            "short_factor: expected one divisor for each of 3 pairs of components, got 1",
        ),
        ({"rope_parameters": {"rope_type": "longrope"}}, "longrope needs the keys short_factor, long_factor"),
    ],
    ids=["type", "part", "divisors", "missing"],
)
def test_other_rotations_are_refused(tmp_path, keys, words):
    saved(tmp_path, "phi3")
    edit_config(tmp_path, **keys)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)
