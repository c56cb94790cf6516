"""Layers of published types against the classes of transformers: scores, loss and gradients."""

import pytest

from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published import parity
from tests.extensions.published.peers import difference, peer_of, saved

GPT2 = "gpt2", {"scale_attn_by_inverse_layer_idx": True, "n_layer": 3}
TYPES = (
    "bert deberta deberta-v2 gemma2 gemma3_text gpt_neox llama mobilebert modernbert phi "
    "smollm3 t5 xlm xlnet"
).split()
"""Together they use every kind of layer."""


@pytest.mark.parametrize(("case", "keys"), [GPT2, *((name, {}) for name in TYPES)])
def test_a_layer_computes_what_the_published_class_computes(case, keys, tmp_path):
    theirs = saved(tmp_path, case, seed=5, **keys)
    model = build_checkpoint(read_checkpoint(tmp_path))
    assert difference(model, theirs) < parity.LIMIT
    assert max(parity.loss_and_gradients(model, theirs, peer_of(case).key_map)) < parity.LIMIT
