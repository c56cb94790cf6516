"""Models with a number format: the same parameters in training, integers after it, and equal logits of both."""

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.checkpoints import build_checkpoint, quantize_checkpoint
from clozeline.model.compression import build_sharing
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.quantization import quantizable_modules, stored_modules
from tests.model.quantization.quantized_models import FORMATS, checkpoint_of, chosen, quantized, trained_for
from tests.model.small_models import VOCABULARY, batch_for, built, small_config

FAMILIES = ("encoder", "decoder", "encoder_decoder", "mobilebert", "replaced_tokens", "xlnet")


def logits(model, family):
    tensors = batch_for(family)
    with torch.no_grad():
        return model.logits({name: value for name, value in tensors.items() if name != "sample_words"})


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_training_computes_what_its_export_does(family, name):
    entry = FORMATS[name] | ({"group": 2} if "group" in FORMATS[name] else {})
    model, checkpoint = quantized(entry, family)
    dense, trained, stored = (
        logits(each, family) for each in (model, trained_for(model, entry), build_checkpoint(checkpoint))
    )
    for head in dense:
        assert (trained[head] - stored[head]).abs().max() <= 1e-5
        assert not torch.equal(dense[head], stored[head])


@pytest.mark.parametrize("family", FAMILIES)
def test_int8_is_close_to_the_dense_model(family):
    model = built(family).eval()
    checkpoint = quantize_checkpoint(checkpoint_of(model), chosen(FORMATS["int8 tables"]))
    found = logits(build_checkpoint(checkpoint), family)
    for head, expected in logits(model, family).items():
        assert (found[head] - expected).norm() < 0.05 * expected.norm()


@pytest.mark.parametrize("name", FORMATS)
def test_parameters_of_a_training_keep_names_and_initial_values(name):
    dense, rounded = built("encoder"), built("encoder", quantization=chosen(FORMATS[name]))
    assert dense.state_dict().keys() == rounded.state_dict().keys()
    assert all(torch.equal(dense.state_dict()[key], value) for key, value in rounded.state_dict().items())
    (loss,) = rounded(batch_for("encoder")).values()
    loss.total.backward()
    assert all(parameter.grad is not None for parameter in rounded.parameters())
    assert not stored_modules(rounded)


def test_without_tables_the_head_and_the_embeddings_stay():
    model, checkpoint = quantized(FORMATS["int8"])
    stored = build_checkpoint(checkpoint)
    assert all(path.startswith("family.stack.") for path in stored_modules(stored))
    assert torch.equal(stored.family.tokens.weight, model.family.tokens.weight)
    assert stored.heads["masked_lm"].projection.weight is stored.family.tokens.weight
    assert not [name for name, _ in stored.named_parameters() if name.endswith("up.weight")]


def test_a_tied_head_reads_the_integers_of_the_table():
    _, checkpoint = quantized(FORMATS["int8 tables"])
    stored = build_checkpoint(checkpoint)
    projection = stored.heads["masked_lm"].projection
    assert projection.integers is stored.family.tokens.integers
    assert "heads.masked_lm.projection.integers" not in checkpoint.tensors
    untied = quantized(FORMATS["int8 tables"], tied=False)[1]
    assert "heads.masked_lm.projection.integers" in untied.tensors


def test_layers_that_share_weights_share_integers():
    changes = {"layers": 4, "share": ShareConfig(groups=1)}
    both = {"decoder_layers": None, "share": ShareConfig(stacks=True)}
    model, checkpoint = quantized(FORMATS["int8"], "encoder_decoder", **both)
    stored = build_checkpoint(checkpoint)
    assert stored.family.encoder.layers[0].attention is stored.family.decoder.layers[0].attention
    assert set(logits(stored, "encoder_decoder")) == set(logits(model, "encoder_decoder"))
    model, checkpoint = quantized(FORMATS["int8"], **changes)
    assert len(stored_modules(build_checkpoint(checkpoint))) == 6


def test_the_count_of_parameters_stays():
    for name in FORMATS:
        model, checkpoint = quantized(FORMATS[name])
        assert Model(checkpoint.config, VOCABULARY).parameters_by_part == model.parameters_by_part


def test_a_family_without_linear_maps_is_refused():
    with pytest.raises(ConfigurationError, match="expected a family with linear maps"):
        quantizable_modules(built("awd_lstm"), chosen("int8").build())


def test_groups_that_do_not_divide_a_width_are_refused_by_its_path():
    config = small_config("encoder", quantization=chosen({"name": "int4", "group": 64}))
    with pytest.raises(ConfigurationError, match=r"layers\.0\.\S+: groups of 64 .* width 24; set group=24"):
        Model(config, VOCABULARY)


@pytest.mark.parametrize("name", FORMATS)
def test_a_model_can_read_the_integers_of_a_checkpoint_in_place(name):
    _, checkpoint = quantized(FORMATS[name])
    shared, copied = build_sharing(checkpoint), build_checkpoint(checkpoint)
    for path, module in stored_modules(shared).items():
        assert module.integers is checkpoint.tensors[f"{path}.integers"]
    assert torch.equal(logits(shared, "encoder")["masked_lm"], logits(copied, "encoder")["masked_lm"])


def test_sharded_parameters_count_with_their_full_shape():
    """DeepSpeed's stage 3 leaves empty tensors, and their shapes in `ds_shape`."""
    model = built("encoder")
    for parameter in model.parameters():
        parameter.ds_shape, parameter.data = parameter.shape, torch.empty(0)
    assert len(quantizable_modules(model, chosen(FORMATS["int4 tables"]).build())) == 14
