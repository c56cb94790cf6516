import pytest
import torch

from clozeline.errors import ConfigurationError
from tests.model.adapters.adapted_models import adapted, scores
from tests.model.small_models import batch_for

CASE = (
    "decoder",
    {
        "rank": 3,
        "alpha": 6.0,
        "targets": ["query", "value", "up"],
    },
)


def test_dropout_is_of_the_updates_input_in_training_alone():
    model = adapted("encoder", "lora", dropout=0.5)
    tensors = batch_for("encoder")
    assert torch.equal(scores(model, tensors), scores(adapted("encoder", "lora"), tensors))
    model.train()
    assert not torch.equal(scores(model, tensors), scores(model, tensors))


def test_a_merge_in_bf16_adds_in_fp32():
    model = adapted("encoder", "lora").to(torch.bfloat16)
    expected = {
        path: (model.family.get_parameter(f"{path}.weight").float() + update.product()).to(
            torch.bfloat16
        )
        for path, update in model.adapters["own"].parts.items()
    }

    model.adapters.merge("own")

    assert all(
        torch.equal(model.family.get_parameter(f"{path}.weight"), value)
        for path, value in expected.items()
    )


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        (["querry"], "'querry' matches no module"),
        (["tokens"], "matches tokens, a Embedding"),
        (["query", "norm"], "a LayerNorm; expected linear maps: down, key, out, query, up, value"),
        (["q("], "expected a regular expression"),
        (["query", "query"], "expected different patterns"),
    ],
    ids=["absent", "table", "norm", "pattern", "twice"],
)
def test_targets_that_are_no_linear_maps_are_refused(targets, message):
    with pytest.raises(ConfigurationError, match=message.replace("(", r"\(")):
        adapted("encoder", "lora", targets=targets)
