import pytest

from clozeline.errors import ConfigurationError
from tests.model.adapters.adapted_models import adapted, inside_peft, peft, scores
from tests.model.small_models import FAMILIES, batch_for

CASE = ("encoder_decoder", {})


@pytest.mark.parametrize("family", FAMILIES)
def test_peft_computes_the_same(family):
    library = peft()
    model = adapted(family, "ia3")
    config = library.IA3Config(target_modules=["key", "value", "down"], feedforward_modules=["down"])
    wrapped, theirs = inside_peft(model, config)
    ours = dict(model.adapters["own"].named_parameters())
    seen = 0
    for name, parameter in wrapped.named_parameters():
        if "ia3_l" in name:
            path = name.removeprefix("base_model.model.family.").partition(".ia3_l")[0]
            parameter.data = ours[f"{path}.factor"].data.view(parameter.shape).clone()
            seen += 1
    assert seen == len(ours)
    tensors = batch_for(family)
    found, expected = scores(model, tensors), scores(theirs.eval(), tensors)
    assert (found - expected).abs().max() <= 1e-5
    model.use_adapter(None)
    assert (scores(model, tensors) - expected).abs().max() > 1e-3


def test_a_map_has_one_factor():
    with pytest.raises(ConfigurationError, match="one of the outputs too"):
        adapted("encoder", "ia3", outputs=["down"], inputs=["down"])
    with pytest.raises(ConfigurationError, match="expected a linear map in outputs or inputs"):
        adapted("encoder", "ia3", outputs=[], inputs=[])


def test_outputs_or_inputs_alone():
    model = adapted("encoder", "ia3", outputs=[], inputs=["up"])
    assert [part.factor.numel() for part in model.adapters["own"].parts.values()] == [24, 24]
