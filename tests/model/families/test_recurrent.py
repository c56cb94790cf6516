"""Promises and refusals of every family without attention."""

import pytest
import torch
from pydantic import ValidationError

from clozeline.errors import BatchError
from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.cache import Cache
from tests.model.small_models import RECURRENT, batch_for, built, small_config, states


@pytest.mark.parametrize("family", RECURRENT)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attention_heads": 4}, "attention_heads: the family"),
        ({"norm_place": "post"}, "norm_place: the family"),
        ({"position": PositionConfig(kind="learned")}, "position.kind: the family"),
        ({"dropout": DropoutConfig(attention=0.1)}, "dropout.attention: the family"),
        ({"heads": {"lm": 1.0}}, "heads: the family"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_keys_that_it_does_not_read_are_refused(family, changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config(family, **changes)


@pytest.mark.parametrize("family", RECURRENT)
@pytest.mark.parametrize("name", ["document_ids", "prefix_length"])
def test_rows_of_parts_are_refused(family, name):
    network = built(family)
    tensors = batch_for(family)
    with pytest.raises(BatchError, match=f"{name}: expected rows of one text"):
        states(network, tensors | {name: torch.zeros_like(tensors["input_ids"])})
    if family == "awd_lstm":
        with pytest.raises(BatchError, match=f"{name}: expected rows of one text"):
            network.family.decode(
                tensors | {name: torch.zeros_like(tensors["input_ids"])}, Cache(11)
            )
