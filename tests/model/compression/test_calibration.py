import dataclasses

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.compression._calibration import build_sharing, real_positions, sum_inputs
from tests.model.compression.compressed_models import logits, model_of, odd_checkpoint
from tests.model.small_models import batch_for, built


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_on_the_tensors_of_a_checkpoint_is_the_model(family, tied):
    dense = odd_checkpoint(family, tied=tied)
    model = build_sharing(dense)
    assert torch.equal(logits(model, batch_for(family)), logits(model_of(dense), batch_for(family)))
    for name, parameter in model.named_parameters():
        assert parameter.data_ptr() == dense.tensors[name].data_ptr()


def test_half_precision_is_computed_in_fp32():
    dense = odd_checkpoint()
    half = dataclasses.replace(dense, tensors={name: tensor.bfloat16() for name, tensor in dense.tensors.items()})
    assert {parameter.dtype for parameter in build_sharing(half).parameters()} == {torch.float32}


def test_a_body_alone_and_characters_are_refused():
    with pytest.raises(ConfigurationError, match="fine-tune it first"):
        build_sharing(dataclasses.replace(odd_checkpoint(), absent=("heads.masked_lm.norm.bias",)))
    with pytest.raises(ConfigurationError, match="characters"):
        build_sharing(odd_checkpoint("elmo"))


def test_sums_count_real_positions_of_each_side():
    dense, batch = odd_checkpoint("encoder_decoder"), batch_for("encoder_decoder")
    paths = [f"family.decoder.layers.0.{part}" for part in ("cross.body.key", "cross.body.query")]
    model, seen = model_of(dense), {}
    for path in paths:
        model.get_submodule(path).register_forward_pre_hook(lambda _, x, path=path: seen.update({path: x[0].detach()}))
    logits(model, batch)
    found = sum_inputs(build_sharing(dense), paths, [batch], lambda x: x.square().sum(0))
    for path, prefix in zip(paths, ("", "decoder_"), strict=True):
        rows = [seen[path][row, :length] for row, length in enumerate(batch[f"{prefix}lengths"])]
        assert (found[path] - torch.cat(rows).double().square().sum(0)).abs().max() <= 1e-12


def test_real_positions_follow_padding_on_either_side():
    batch = {"input_ids": torch.zeros(2, 4), "lengths": torch.tensor([4, 2]), "left_padding": torch.tensor([0, 1])}
    assert real_positions(batch).tolist() == [[True] * 4, [False, True, True, False]]
    assert real_positions({"input_ids": torch.zeros(2, 3), "lengths": torch.tensor(3)}).all()


def test_moments_are_those_of_real_tokens():
    model, tensors = built("encoder"), batch_for("encoder")
    path = "family.stack.layers.1.feed_forward.body.up"
    linear, seen = model.get_submodule(path), []
    hook = linear.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    with torch.no_grad():
        model.logits(tensors)
    hook.remove()
    valid = torch.arange(11) < tensors["lengths"][:, None]
    expected = sum(torch.outer(x, x) for x in seen[0][valid].double())
    for times in (1, 2):
        moments = sum_inputs(model, [path], [tensors] * times, lambda x: x.T @ x)
        assert torch.allclose(moments[path], times * expected, atol=1e-12)
    assert not linear._forward_pre_hooks


def test_a_linear_map_that_no_row_reaches_has_no_sum():
    model = built("encoder")
    model.unused = torch.nn.Linear(3, 2)
    assert sum_inputs(model, ["unused"], [batch_for("encoder")], torch.sum) == {}
