"""Inputs of layers: running them one by one gives the states of the family."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.extensions.compression.early_exit import (
    attention_flops,
    embedding_flops,
    record_layers,
)
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from clozeline.model.parameters.flops import matrix_flops
from tests.model.small_models import batch_for, built
from tests.refusals import refused

LOCAL = {
    "local": LocalConfig(window=2, global_every=2, theta=100.0),
    "position": PositionConfig(kind="rope"),
}
MODELS = {
    "encoder": {},
    "decoder": {},
    "mobilebert": {},
    "local": LOCAL,
    "narrow": {"emb_dim": 8, "final_norm": True},
}


def model_of(name, **changes):
    family = name if name in ("decoder", "mobilebert") else "encoder"
    return built(family, layers=3, **MODELS[name] | changes).double().eval()


@pytest.mark.parametrize("name", MODELS)
def test_layers_run_one_by_one_give_the_states_of_the_family_and_its_flops(name):
    model = model_of(name)
    tensors = batch_for("encoder")
    states = dict(model.named_parameters())
    names = list(model.state_dict())
    x, calls, _, tokens = record_layers(model, tensors, "a test")

    assert tokens.tolist() == tensors["lengths"].tolist()
    assert list(model.state_dict()) == names, "the layers are back"
    assert all(parameter is states[key] for key, parameter in model.named_parameters())

    flops = embedding_flops(model, tokens)
    for number, (layer, plan, rest) in enumerate(calls):
        x = layer(x, plan, *rest)
        flops = flops + tokens * matrix_flops(layer) + attention_flops(model, number, tokens)

    assert torch.equal(model.family.apply_final_norm(x), model.family(tensors))
    assert flops.tolist() == pytest.approx(
        [model.family.flops(int(length), 0) for length in tokens]
    )


def test_families_and_batches_that_do_not_fit_are_refused():
    for family in ("encoder_decoder", "elmo", "awd_lstm", "xlnet", "replaced_tokens"):
        with refused(rf"a test: expected one stack .* got the family {family}"):
            record_layers(built(family), batch_for(family), "a test")

    for name in ("document_ids", "left_padding"):
        tensors = batch_for("encoder", lengths=[3, 4])
        wrong = tensors | {
            name: torch.tensor([1, 0]) if name == "left_padding" else tensors["input_ids"]
        }
        with pytest.raises(BatchError, match=rf"{name}: a test needs rows of one text each"):
            record_layers(model_of("encoder"), wrong, "a test")
