import dataclasses

import pytest
import torch

from clozeline.model.checkpoints import build_checkpoint
from tests.model.compression.compressed_models import logits, model_of, odd_checkpoint
from tests.model.small_models import batch_for


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_model_on_the_tensors_of_a_checkpoint_is_the_model(family, tied):
    dense = odd_checkpoint(family, tied=tied)
    model = build_checkpoint(dense)
    assert torch.equal(logits(model, batch_for(family)), logits(model_of(dense), batch_for(family)))
    for name, parameter in model.named_parameters():
        assert parameter.data_ptr() == dense.tensors[name].data_ptr()


def test_half_precision_is_computed_in_fp32():
    dense = odd_checkpoint()
    half = dataclasses.replace(dense, tensors={name: tensor.bfloat16() for name, tensor in dense.tensors.items()})
    assert {parameter.dtype for parameter in build_checkpoint(half).parameters()} == {torch.float32}
