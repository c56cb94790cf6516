from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints import build_checkpoint, export_checkpoint, read_checkpoint
from clozeline.model.configuration.position import DisentangledConfig
from tests.model.checkpoints.published import apart, difference, edit_config, export_to, loaded, rows, saved


def options(draw, found):
    return {
        "relative_attention": True,
        "type_vocab_size": draw.choice([0, 2]),
        "pos_att_type": draw.choice(["c2p", "p2c", "c2p|p2c"]),
        "max_relative_positions": draw.choice([-1, 5]),
        "position_biased_input": draw.choice([True, False]),
    }


KINDS = ["deberta", "deberta-v2"]


def test_the_fused_projection_goes_head_by_head(tmp_path):
    saved(tmp_path, "deberta", num_attention_heads=3, hidden_size=12)
    fused = load_file(tmp_path / "model.safetensors")["deberta.encoder.layer.0.attention.self.in_proj.weight"]
    tensors = read_checkpoint(tmp_path).tensors
    for part, name in enumerate(("query", "key", "value")):
        ours = tensors[f"family.stack.layers.0.attention.body.{name}.weight"]
        for head in range(3):
            start = (3 * head + part) * 4
            assert torch.equal(ours[4 * head : 4 * head + 4], fused[start : start + 4])


@pytest.mark.parametrize("kind", KINDS)
def test_the_head_of_published_files_is_read_and_goes_out_under_the_names_of_the_class(tmp_path, kind):
    theirs = saved(tmp_path / "in", kind, legacy=False)
    checkpoint = read_checkpoint(tmp_path / "in")
    assert (checkpoint.absent, checkpoint.notes) == ((), ())
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    model, report = loaded(export_to(tmp_path / "out", export_checkpoint(checkpoint)), "AutoModelForMaskedLM")
    assert (model.config.legacy, report) == (True, {})
    _, their, valid = rows(theirs)
    with torch.no_grad():
        assert torch.allclose(model(**their).logits[valid], theirs(**their).logits[valid], atol=1e-6)
    edit_config(tmp_path / "in", tie_word_embeddings=False)
    assert read_checkpoint(tmp_path / "in").config.tied, "this head has no other projection than the table"
    before, after = theirs.state_dict(), model.state_dict()
    assert torch.equal(before["lm_predictions.lm_head.dense.weight"], after["cls.predictions.transform.dense.weight"])
    assert torch.equal(before["lm_predictions.lm_head.bias"], after["cls.predictions.bias"])


def test_what_published_files_hold_besides_is_left_out_and_said(tmp_path):
    """Their config.json has no key `legacy`; the places are those of the mask decoder, which no class of theirs has."""
    theirs = saved(tmp_path, "deberta", legacy=False, position_biased_input=False)
    edit_config(tmp_path, legacy=None, tie_word_embeddings=None)
    tensors = load_file(tmp_path / "model.safetensors")
    more = ("deberta.embeddings.position_embeddings.weight", "mask_predictions.dense.weight")
    save_file(tensors | {name: torch.ones(2, 2) for name in more}, tmp_path / "model.safetensors")
    checkpoint = read_checkpoint(tmp_path)
    assert checkpoint.notes == (f"not read, no part of the model: {', '.join(more)}",)
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5


@pytest.mark.parametrize("kind", KINDS)
def test_an_untied_projection_reads_its_own_bias(tmp_path, kind):
    theirs = saved(tmp_path, kind, tie_word_embeddings=False)
    checkpoint = read_checkpoint(tmp_path)
    assert not checkpoint.config.tied
    assert difference(build_checkpoint(checkpoint), theirs) < 1e-5
    assert set(export_checkpoint(checkpoint).tensors) == set(theirs.state_dict())


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"relative_attention": None}, "relative_attention: expected true, got None"),
        ({"pos_att_type": ["c2p", "p2p"]}, "pos_att_type: expected c2p and p2c, got p2p"),
        ({"pos_att_type": []}, "got neither"),
        ({"embedding_size": 7}, "embedding_size: expected that of hidden_size"),
        ({"max_relative_positions": "all"}, "max_distance"),
        ({"talking_head": True}, "talking_head: expected False, got True"),
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_other_computations_are_refused(tmp_path, changes, words):
    saved(tmp_path, "deberta")
    edit_config(tmp_path, **changes)
    with pytest.raises(ConfigurationError, match=words):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_a_mask_decoder_goes_out_without_it_and_without_its_head(tmp_path, kind):
    """Its layers are those of the encoder: the last one, applied once to its own states, is the published body."""
    theirs = saved(tmp_path / "in", kind, num_hidden_layers=2)
    plain = read_checkpoint(tmp_path / "in")
    relative = replace(plain.config.position.disentangled or DisentangledConfig(), mask_decoder=2)
    config = replace(plain.config, position=replace(plain.config.position, disentangled=relative))
    places = {"family.stack.layers.1.places.weight": torch.ones(20, config.dim)}
    decoded = replace(plain, config=config, tensors={**plain.tensors, **places})
    assert difference(build_checkpoint(decoded), theirs) > 1e-3
    with pytest.raises(ConfigurationError, match=r"layers\.1\.places\.weight; export the body alone"):
        export_checkpoint(decoded)
    export = export_checkpoint(decoded, body_alone=True)
    assert not any("places" in name for name in export.tensors)
    model, report = loaded(export_to(tmp_path / "out", export), export.loader)
    assert (type(model), report) == (getattr(transformers, export.loader), {})
    _, their, valid = rows(theirs)
    with torch.no_grad():
        body = theirs.deberta(**their).last_hidden_state
        assert apart(model(**their).last_hidden_state, body, valid) < 1e-5
