"""Dropout: each key acts in training alone, and at the step that the key names."""

from dataclasses import fields

import pytest
import torch

from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.layer import FeedForward
from clozeline.model.layers.position import Position
from clozeline.model.layers.stack import Stack
from clozeline.model.layers.vocabulary import Embeddings
from tests.model.small_models import batch_for, built, small_config, states


@pytest.mark.parametrize("family", ["encoder", "decoder", "encoder_decoder"])
@pytest.mark.parametrize("key", [field.name for field in fields(DropoutConfig)])
def test_each_key_acts_in_training_alone(key, family):
    network = built(family, dropout={key: 0.5})
    tensors = batch_for(family)
    assert not torch.equal(states(network, tensors), states(network, tensors))
    assert torch.equal(states(network.eval(), tensors), states(built(family).eval(), tensors))


def zeros(tensor):
    return tensor.eq(0).float().mean().item()


def test_dropout_is_the_last_step_of_embeddings_and_of_a_stack_and_stands_before_the_last_projection():
    torch.manual_seed(0)
    vectors = torch.randn(2, 50, 24)
    places = torch.arange(50).expand(2, 50)
    embeddings = Embeddings(small_config("encoder", dropout=DropoutConfig(embedding=0.5)))

    assert 0.3 < zeros(embeddings(vectors, Position(), places, None)) < 0.7, (
        "a norm after it would move the zeros"
    )

    config = small_config(
        "decoder", position=PositionConfig(kind="none"), dropout=DropoutConfig(output=0.5)
    )

    assert 0.4 < zeros(Stack(config, 2, causal=True)(vectors, places, None, None)) < 0.6

    block = FeedForward(small_config("encoder", dropout=DropoutConfig(activation=0.999)))
    seen = []
    block.down.register_forward_hook(lambda _module, inputs, _out: seen.append(inputs[0]))
    block(vectors)

    assert zeros(seen[0]) > 0.98
