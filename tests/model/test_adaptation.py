import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import freeze_base
from tests.model.small_models import batch_for, built


def test_parameters_that_train_beside_the_adapter_are_named():
    network = built("encoder", heads={"classification": {"classes": 3}})
    network.adapters.add("own", "lora")
    with pytest.raises(ConfigurationError, match="no adapter is active"):
        freeze_base(network)
    network.adapters.use("own")
    head = [name for name, _ in network.named_parameters() if name.startswith("heads.")]
    freeze_base(network, head)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}

    assert trained == {
        *head,
        *(f"adapters.own.{name}" for name, _ in network.adapters.find("own").named_parameters()),
    }


def test_an_unknown_adapter_is_refused_with_the_known_ones():
    network = built("encoder")
    network.adapters.add("small", {"name": "lora", "rank": 2})
    network.adapters.add("large", {"name": "lora", "rank": 3})

    with pytest.raises(ConfigurationError, match="no adapter 'none'; it has small, large"):
        network.adapters.find("none")


def test_a_merged_adapter_that_was_not_in_use_leaves_the_other_in_use():
    network = built("encoder").eval()
    for name in ("first", "second"):
        network.adapters.add(name, "bitfit")
    network.adapters.use("first")
    network.adapters.merge("second")

    assert network.adapters.active == "first"


def test_new_parameters_have_the_type_and_mode_of_the_model():
    network = built("encoder").to(torch.bfloat16).eval()
    adapter = network.adapters.add("own", "lora")

    assert {parameter.dtype for parameter in adapter.parameters()} == {torch.bfloat16}
    assert not adapter.training

    network.adapters.use("own")

    assert network.logits(batch_for("encoder"))["masked_lm"].dtype == torch.bfloat16
