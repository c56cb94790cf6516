"""Promises and refusals of every family without attention."""

import pytest
import torch
from pydantic import TypeAdapter, ValidationError
from torch.utils.flop_counter import FlopCounterMode

from clozeline.errors import BatchError
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from tests.model.small_models import RECURRENT, batch_for, built, only, small_config, states, total


@pytest.mark.parametrize("family", RECURRENT)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_heads": 4}, "attention_heads: the family"),
        ({"norm_place": "post"}, "norm_place: the family"),
        ({"position": PositionConfig(kind="learned")}, "position.kind: the family"),
        ({"dropout": DropoutConfig(attention=0.1)}, "dropout.attention: the family"),
        ({"heads": {"lm": 1.0}}, "heads: states of the family"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_that_it_does_not_read_are_refused(family, changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config(family, **changes)


@pytest.mark.parametrize("family", RECURRENT)
def test_a_configuration_is_written_and_read(family):
    config = small_config(family)
    plain = TypeAdapter(type(config)).dump_python(config, mode="json")
    assert TypeAdapter(ModelConfig).validate_python(plain) == config


@pytest.mark.parametrize("family", RECURRENT)
@pytest.mark.parametrize("name", ["document_ids", "prefix_length"])
def test_rows_of_parts_are_refused(family, name):
    network, tensors = built(family), batch_for(family)
    with pytest.raises(BatchError, match=f"{name}: expected rows of one text"):
        states(network, tensors | {name: torch.zeros_like(tensors["input_ids"])})


@pytest.mark.parametrize("family", RECURRENT)
@pytest.mark.parametrize("lengths", [[11] * 4, [11, 4, 7, 9]], ids=["full", "padded"])
def test_no_forward_reads_a_value(family, lengths):
    """Tensors of the meta device have no values: whoever asks for one gets an error."""
    network, tensors = built(family, dropout={"hidden": 0.5}), batch_for(family, lengths=lengths)
    settled = add_host_shapes(tensors, network.config.position.limit)
    network.to("meta")
    loss = only(network({key: value.to("meta") for key, value in settled.items()}))
    assert (loss.total.device.type, loss.divisor.device.type) == ("meta", "meta")
    loss.total.backward()


@pytest.mark.parametrize("family", RECURRENT)
def test_settled_rows_have_the_same_states(family):
    network, tensors = built(family), batch_for(family, lengths=[11] * 4)
    assert torch.equal(states(network, add_host_shapes(tensors, None)), states(network, tensors))


@pytest.mark.parametrize("family", RECURRENT)
def test_a_familys_count_is_what_its_forward_computes(family):
    network = built(family).to("meta")
    tensors = {name: value.to("meta") for name, value in batch_for(family, lengths=[9], columns=9).items()}
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.family(tensors)
    assert network.family.flops(9, 0) == counter.get_total_flops()


@pytest.mark.parametrize("family", RECURRENT)
def test_dropout_follows_the_seed_and_stops_in_evaluation(family):
    network, tensors = built(family, dropout={"hidden": 0.3}), batch_for(family)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(total(network, tensors).item())
    assert losses[0] == losses[1] != losses[2]
    network.eval()
    assert total(network, tensors).item() == total(network, tensors).item()
