import pytest
import torch
from torch.nn import functional as F

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.layer import DropoutConfig
from tests.model.adapters.adapted_models import adapted
from tests.model.small_models import built

CASE = ("encoder", {"width": 5})


@pytest.mark.parametrize("place", ["pre", "post"])
def test_a_block_computes_the_formula(place):
    """Houlsby et al.: on the output of the block after its dropout, before the sum and the norm."""
    changes = {"norm_place": place, "dropout": DropoutConfig(hidden=0.5)}
    model = adapted("encoder", "bottleneck", width=5, changes=changes)
    block = model.family.stack.layers[0].feed_forward
    narrow = model.adapters["own"].parts["stack.layers.0.feed_forward"]
    x = torch.randn(2, 3, 24)

    def after(h):
        return h + F.gelu(h @ narrow.down.T + narrow.down_bias) @ narrow.up.T + narrow.up_bias

    expected = (
        x + after(block.body(block.norm(x)))
        if place == "pre"
        else block.norm(x + after(block.body(x)))
    )

    assert torch.allclose(block(x), expected, atol=1e-6)

    block.train()
    torch.manual_seed(3)
    found = block(x)
    torch.manual_seed(3)
    inner = F.dropout(block.body(block.norm(x) if place == "pre" else x), 0.5)
    expected = x + after(inner) if place == "pre" else block.norm(x + after(inner))

    assert torch.allclose(found, expected, atol=1e-6)


def test_places_of_both_kinds():
    every = adapted("encoder_decoder", "bottleneck", width=5).adapters["own"].parts

    assert [path for path in every if path.startswith("decoder.layers.2.")] == [
        f"decoder.layers.2.{block}" for block in ("attention", "cross", "feed_forward")
    ]
    assert len(every) == 2 * 2 + 3 * 3

    after = (
        adapted("encoder_decoder", "bottleneck", width=5, after="feed_forward")
        .adapters["own"]
        .parts
    )

    assert len(after) == 2 + 3
    assert all(path.endswith(".feed_forward") for path in after)


def test_a_family_without_residual_blocks_is_refused():
    assert built("mobilebert")
    with pytest.raises(ConfigurationError, match="MobileBert has none"):
        adapted("mobilebert", "bottleneck")
