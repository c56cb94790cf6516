"""Heads that read a learned mix of all layers (arXiv 1802.05365 §3.2)."""

import pytest
import torch

from clozeline.errors import ConfigurationError
from clozeline.model.scoring.features import token_vectors
from clozeline.tools.start.contracts.heads import full_batch
from tests.model.small_models import built

HEAD = {"classification": {"classes": 3, "scalar_mix": True}}


def test_a_head_reads_the_mix_and_at_first_the_mean():
    model = built("encoder", heads=HEAD).eval()
    plain = built("encoder", heads={"classification": {"classes": 3}}).eval()
    tensors = full_batch()
    states = model.family.layer_states(tensors)
    head = model.heads["classification"]

    assert len(states) == 3
    assert torch.allclose(
        model.logits(tensors)["classification"], head.logits((sum(states) / 3)[:, 0]), atol=1e-6
    )

    for layer in range(3):
        with torch.no_grad():
            head.mix.weights.zero_()[layer] = 1e4
            head.mix.gain.fill_(layer - 1.0)

        mixed = (layer - 1) * states[layer][:, 0]

        assert torch.allclose(
            model.logits(tensors)["classification"], head.logits(mixed), atol=1e-6
        )

    assert torch.allclose(
        model.logits(tensors)["classification"], plain.logits(tensors)["classification"], atol=1e-6
    )

    ids = tensors["input_ids"][0].tolist()

    assert torch.allclose(
        token_vectors(model, [ids], "scalar_mix")[0],
        states[2][0],
        atol=1e-6,
    )


@pytest.mark.parametrize("family", ["encoder_decoder", "replaced_tokens"])
def test_families_of_several_stacks_are_refused(family):
    heads = {"classification": {"classes": 2, "scalar_mix": True}}
    if family == "replaced_tokens":
        heads |= {"masked_lm": {}}
    with pytest.raises(
        ConfigurationError, match=r"classification.scalar_mix: expected a family of one stack"
    ):
        built(family, heads=heads)
