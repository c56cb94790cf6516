"""Promises of every adapter: the base as it is, its own parameters alone in training, and a state
of its own."""

import pytest
import torch

from clozeline.errors import BatchError, ConfigurationError
from clozeline.model.build import build_model, freeze_base
from clozeline.model.compilation.layer_calls import recompute_layers
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.registries import ADAPTERS
from tests.contracts import contract
from tests.model.adapters.adapted_models import (
    MERGED,
    NAMES,
    adapted,
    case,
    case_of,
    disturbed,
    scores,
    takes_places,
)
from tests.model.generation.test_beam import sums_of
from tests.model.small_models import VOCABULARY, batch_for, built, small_config

GENERATING = ("decoder", "encoder_decoder")


def accepted(family, name):
    """Whether the small model of a family has a place for an adapter."""
    try:
        adapted(family, name, noise=False, **case_of(name)[1])
    except ConfigurationError:
        return False
    return True


@contract(ADAPTERS, only=lambda name: not takes_places(name))
def test_a_new_adapter_changes_nothing(name):
    model, tensors = case(name, noise=False)
    with_it = scores(model, tensors)
    model.adapters.use(None)
    assert torch.equal(scores(model, tensors), with_it)


@contract(ADAPTERS)
def test_adapters_of_a_model_are_switched_by_name(name):
    model, tensors = case(name)
    first = scores(model, tensors)
    model.adapters.add("other", {"name": "lora", "targets": ["query"]}, seed=3)
    disturbed(model.adapters["other"])
    model.adapters.use("other")
    second = scores(model, tensors)
    model.adapters.use(None)
    alone = scores(model, tensors)

    assert not torch.allclose(first, second)
    assert not torch.allclose(first, alone)
    assert torch.equal(alone, scores(built(case_of(name)[0]).eval(), tensors))

    model.adapters.use("own")

    assert torch.equal(scores(model, tensors), first)

    with pytest.raises(ConfigurationError, match="no adapter 'absent'; it has own, other"):
        model.adapters.use("absent")


@pytest.mark.parametrize("recomputed", [False, True], ids=["kept", "recomputed"])
@contract(ADAPTERS)
def test_the_adapter_alone_trains(name, recomputed):
    family, keys = case_of(name)
    dropout = {"hidden": 0.1, "attention": 0.1, "embedding": 0.1}
    changes = {"dropout": type(small_config(family).dropout)(**dropout)}
    model = adapted(family, name, changes=changes, **keys).train()
    freeze_base(model)
    if recomputed:
        recompute_layers(model)
    before = {own: parameter.detach().clone() for own, parameter in model.named_parameters()}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]

    assert all(
        own.startswith("adapters.own.") == p.requires_grad for own, p in model.named_parameters()
    )

    optimizer = torch.optim.AdamW(trained, lr=1e-2, weight_decay=0.1)

    for step in range(5):
        optimizer.zero_grad()
        (loss,) = model(batch_for(family, seed=step)).values()
        loss.total.backward()
        assert all(parameter.grad is not None for parameter in trained)
        optimizer.step()

    for own, parameter in model.named_parameters():
        assert torch.equal(before[own], parameter) != own.startswith("adapters.own."), own


@contract(ADAPTERS)
def test_weights_of_an_adapter_give_the_same_bits_elsewhere(name):
    model, tensors = case(name)
    other, _ = case(name, noise=False)
    other.adapters.find("own").load_state_dict(dict(model.adapters.find("own").named_parameters()))
    assert torch.equal(scores(model, tensors), scores(other, tensors))


@contract(ADAPTERS)
def test_the_base_of_a_configured_adapter_has_the_weights_that_it_has_alone(name):
    family, keys = case_of(name)
    config = small_config(family, adapter={"name": name, **keys})
    with_it = build_model(config, VOCABULARY, {}, seed=5)
    alone = build_model(small_config(family), VOCABULARY, {}, seed=5)
    base = dict(alone.named_parameters())
    own = {
        key: parameter
        for key, parameter in with_it.named_parameters()
        if key.startswith(f"adapters.{name}.")
    }

    assert own
    assert base.keys() | own.keys() == dict(with_it.named_parameters()).keys()
    assert all(
        torch.equal(parameter, dict(with_it.named_parameters())[key])
        for key, parameter in base.items()
    )
    assert sum(p.numel() for p in own.values()) == with_it.num_parameters() - alone.num_parameters()


@pytest.mark.parametrize("name", MERGED)
def test_a_merged_model_computes_the_same_and_is_restored_to_the_byte(name):
    model, tensors = case(name)
    beside = scores(model, tensors)
    bytes_before = {own: parameter.clone() for own, parameter in model.family.named_parameters()}
    before = model.adapters.merge("own")

    assert model.adapters.active is None
    assert (scores(model, tensors) - beside).abs().max() <= 1e-5
    assert not torch.allclose(
        scores(built(case_of(name)[0]).eval(), tensors),
        beside,
        atol=1e-3,
    )

    model.family.load_state_dict(before, strict=False)

    assert all(
        torch.equal(parameter, bytes_before[own])
        for own, parameter in model.family.named_parameters()
    )

    model.adapters.use("own")

    assert torch.equal(scores(model, tensors), beside)


@contract(ADAPTERS, only=lambda name: name not in MERGED)
def test_what_no_weight_can_hold_is_not_merged(name):
    model, _ = case(name)
    with pytest.raises(ConfigurationError, match="cannot be merged"):
        model.adapters.merge("own")


@pytest.mark.parametrize(
    ("family", "name"),
    [(family, name) for family in GENERATING for name in NAMES if accepted(family, name)],
)
def test_a_cached_generation_is_that_of_whole_rows(family, name):
    model = adapted(family, name)
    start = {"decoder_start": 0} if family == "encoder_decoder" else {}
    prompts = [[5, 6, 7, 8], [9, 3]]
    for prompt, one in zip(
        prompts, generate(model, prompts, Decoding(max_tokens=5), **start), strict=True
    ):
        assert one.score == pytest.approx(
            float(sums_of(model, prompt, [one.ids], start)[0, -1]), abs=1e-4
        )


@pytest.mark.parametrize("name", ["prefix", "prompt"])
def test_places_of_the_table_that_an_adapter_takes_are_not_there_for_rows(name):
    family = "decoder" if name == "prefix" else "encoder"
    position = {"kind": "learned", "maximum": 12}
    model = adapted(family, name, length=4, changes={"position": position})

    assert model.position_limit == 8

    scores(model, batch_for(family, columns=8))
    with pytest.raises(BatchError, match="0 to 7"):
        scores(model, batch_for(family, columns=9))
    model.adapters.use(None)
    scores(model, batch_for(family, columns=12))
    config = small_config(family, adapter={"name": name, "length": 4}, position=position)

    assert config.position_limit == 8


@pytest.mark.parametrize("name", ["own", "a.b", ""])
def test_names_of_adapters_are_new_and_without_dots(name):
    model = adapted("encoder", "lora")
    with pytest.raises(ConfigurationError, match="expected a new name without dots"):
        model.adapters.add(name, "lora")
