"""Compiled models compute the same; minutes on a CPU, so not in the fast tier."""

import pytest
import torch

from clozeline.model.build import build_model
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.small_models import FAMILIES, VOCABULARY, batch_for, small_config


@pytest.mark.slow
@pytest.mark.filterwarnings(  # the tracer's own, while it looks at intermediate results
    "ignore:The .grad attribute of a Tensor:UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
@pytest.mark.parametrize(
    ("family", "switches"),
    [
        *((family, {}) for family in FAMILIES),
        ("decoder", {"attn_logit_softcapping": 0.5, "final_logit_softcapping": 0.5, "qk_norm": "head",
                     "norm": "rms_one", "norm_place": "both", "local": {"window": 2, "global_every": 2}}),
    ],
    ids=[*FAMILIES, "gemma"],
)  # fmt: skip
def test_compiled_losses_and_gradients_equal(family, switches):
    torch.manual_seed(0)
    network, tensors = build_model(small_config(family, **switches), VOCABULARY, {}), batch_for(family)
    (loss,) = network(tensors).values()
    loss.total.backward()
    expected = gradients(network)
    network.zero_grad()
    (compiled,) = torch.compile(network)(tensors).values()
    compiled.total.backward()
    assert compiled.total.item() == pytest.approx(loss.total.item(), rel=1e-6)
    assert_gradients_close(gradients(network), expected, FLOAT32)
