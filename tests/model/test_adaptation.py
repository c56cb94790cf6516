import pytest
import torch

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.build import add_adapter, fill_adapter, freeze_base, merge_adapter
from tests.model.small_models import batch_for, built


def test_parameters_that_train_beside_the_adapter_are_named():
    network = built("encoder", heads={"classification": {"classes": 3}})
    add_adapter(network, "own", "lora")
    with pytest.raises(ConfigurationError, match="no adapter is active"):
        freeze_base(network)
    network.use_adapter("own")
    head = [name for name, _ in network.named_parameters() if name.startswith("heads.")]
    freeze_base(network, head)
    trained = {name for name, parameter in network.named_parameters() if parameter.requires_grad}

    assert trained == {
        *head,
        *(f"adapters.own.{name}" for name, _ in network.find_adapter("own").named_parameters()),
    }


def test_weights_of_another_adapter_are_refused():
    network = built("encoder")
    add_adapter(network, "small", {"name": "lora", "rank": 2})
    add_adapter(network, "large", {"name": "lora", "rank": 3})

    with pytest.raises(
        WeightsError, match=r"expected shape \[2, 24\], got \[3, 24\] \(8 parameters differ\)"
    ):
        fill_adapter(network, "small", dict(network.find_adapter("large").named_parameters()))

    weights = dict(network.find_adapter("small").named_parameters())
    del weights[max(weights)]
    with pytest.raises(WeightsError, match="got None"):
        fill_adapter(network, "small", weights)
    with pytest.raises(ConfigurationError, match="no adapter 'none'; it has small, large"):
        network.find_adapter("none")


def test_a_merged_adapter_that_was_not_in_use_leaves_the_other_in_use():
    network = built("encoder").eval()
    for name in ("first", "second"):
        add_adapter(network, name, "bitfit")
    network.use_adapter("first")
    merge_adapter(network, "second")

    assert network.adapter_in_use == "first"


def test_new_parameters_have_the_type_and_mode_of_the_model():
    network = built("encoder").to(torch.bfloat16).eval()
    adapter = add_adapter(network, "own", "lora")

    assert {parameter.dtype for parameter in adapter.parameters()} == {torch.bfloat16}
    assert not adapter.training

    network.use_adapter("own")

    assert network.logits(batch_for("encoder"))["masked_lm"].dtype == torch.bfloat16
