"""Models that are built on the tensors of a checkpoint."""

import pytest
import torch

from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from tests.model.small_models import built


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ([torch.float64, torch.float32], torch.float32),
        ([torch.float64, torch.bfloat16], torch.float32),
        ([torch.float32, torch.float16], torch.float32),
        ([torch.float64], torch.float64),
    ],
)
def test_a_model_has_one_type_of_numbers(types, expected):
    """Products of matrices of two types fail, whatever the file mixes."""
    model = built("encoder")
    stored = dict(model.named_parameters())
    tensors = {
        name: tensor.detach().to(types[index % len(types)])
        for index, (name, tensor) in enumerate(stored.items())
    }
    checkpoint = Checkpoint(model.config, model.vocab_size, tensors, {}, None, ())
    found = {parameter.dtype for parameter in build_checkpoint(checkpoint).parameters()}
    assert found == {expected}
