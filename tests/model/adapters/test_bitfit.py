import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.build import freeze_base
from clozeline.model.configuration.layer import BiasConfig
from tests.model.adapters.adapted_models import adapted
from tests.model.small_models import batch_for, built

CASE = ("encoder", {})


@pytest.mark.parametrize("family", ["encoder", "mobilebert", "xlnet", "replaced_tokens"])
def test_training_the_changes_is_training_the_biases(family):
    """The reference trains the biases of the body themselves."""
    model = adapted(family, "bitfit", noise=False)
    freeze_base(model)
    reference = built(family).eval()
    for name, parameter in reference.named_parameters():
        parameter.requires_grad_(name.startswith("family.") and name.endswith(".bias"))
    losses = []

    for one in (model, reference):
        parameters = [parameter for parameter in one.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0)
        losses.append([])

        for step in range(4):
            optimizer.zero_grad()
            total = sum(loss.total for loss in one(batch_for(family, seed=step)).values())
            total.backward()
            losses[-1].append(total.item())
            optimizer.step()

    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0][-1] != losses[0][0]

    counts = [
        sum(p.numel() for p in one.parameters() if p.requires_grad) for one in (model, reference)
    ]

    assert counts[0] == counts[1]


def test_a_body_without_biases_is_refused():
    bias = BiasConfig(qkv=False, out=False, ffn=False, norm=False)
    with pytest.raises(ConfigurationError, match="bitfit changes biases, and this body has none"):
        adapted("encoder", "bitfit", changes={"bias": bias})


def test_biases_inside_a_recurrence_are_refused():
    with pytest.raises(
        ConfigurationError, match="a LongShortTermMemory, does not add its bias at the end"
    ):
        adapted("awd_lstm", "bitfit")
