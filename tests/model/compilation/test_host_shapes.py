"""Batches read on the host, and forwards that read nothing."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from tests.matrices import mark_slow_but
from tests.model.layers.test_cache import KINDS
from tests.model.small_models import FAMILIES, batch_for, built, only


def variants(family):
    """Batches of a family that reach every mask: full rows, padded ones, prefixes, packed
    documents, modes, weights."""
    full = batch_for(family, lengths=[11] * 4)
    padded = batch_for(family, lengths=[11, 4, 7, 9])
    left = padded | {"left_padding": torch.tensor([0, 7, 2, 0])}
    found = {"full": full, "padded": padded, "left": left}
    documents = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 3]).expand(4, 11)
    restarting = torch.tensor([0, 1, 2, 0, 1, 0, 1, 2, 3, 0, 1]).repeat(4, 1)
    restarting[1] = torch.arange(1, 12)
    if family == "decoder":
        found["prefix"] = full | {"prefix_length": torch.tensor([3, 1, 0, 11])}
    if family == "encoder":
        found["modes"] = padded | {
            "attention": torch.arange(4),
            "prefix_length": torch.tensor([0, 0, 0, 5]),
        }

    if family != "encoder_decoder":
        found["documents"] = full | {"document_ids": documents, "position_ids": restarting}
    weights = {
        "label_weight": torch.rand(8),
        "label_count": torch.tensor([2, 5, 0, 3]),
    }
    return found | {"weights": full | weights}


RELATIVE = PositionConfig(
    kind="none",
    maximum=16,
    disentangled=DisentangledConfig(max_distance=9, buckets=4, convolution=3, mask_decoder=2),
)
CASES = [
    *((family, name, kind) for family in FAMILIES for name in variants(family) for kind in KINDS),
    *(("encoder", name, "disentangled") for name in variants("encoder")),
    *(("mobilebert", name, "learned") for name in variants("mobilebert") if name != "left"),
]
USUAL = [case for case in CASES if case[1] == "padded" or case[2] in ("learned", "disentangled")]
"""Each kind of position, and each batch with one of them."""


@pytest.mark.parametrize(("family", "name", "kind"), mark_slow_but(USUAL[::2], CASES))
def test_a_settled_batch_gives_the_same_loss_and_no_forward_reads_a_value(family, name, kind):
    """The family itself reads the batch as it came.

    Whoever asks a tensor of the meta device for its value fails.
    """
    types = 6 if family == "encoder" else 0
    position = (KINDS | {"disentangled": RELATIVE})[kind]
    network = built(family, position=position, head_dim=6, type_vocab_size=types).eval()
    tensors = variants(family)[name]
    settled = add_host_shapes(tensors, network.config.position.limit)
    ((head, loss),) = network(settled).items()
    expected = network.heads[head].loss(network.family(tensors), tensors)

    assert loss.total.item() == pytest.approx(expected.total.item(), rel=1e-5)
    assert loss.count == expected.count

    only(
        network.train().to("meta")({key: value.to("meta") for key, value in settled.items()})
    ).total.backward()


SCALED = {"factor": 2.0, "original_maximum": 4}
FACTORS = {"short_factor": [1.0] * 3, "long_factor": [2.0] * 3}
SWITCHES = {
    "local": {"local": {"window": 2, "global_every": 2}},
    "caps and norms": {
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
        "qk_norm": "head",
    },
    "dynamic": {"position": {"kind": "rope", "scaling": SCALED | {"kind": "dynamic"}}},
    "longrope": {"position": {"kind": "rope", "scaling": SCALED | FACTORS | {"kind": "longrope"}}},
}


@pytest.mark.parametrize("changes", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize("family", FAMILIES)
def test_neither_windows_nor_scaled_positions_read_a_value(family, changes):
    network = built(family, head_dim=6, **changes).to("meta")
    for tensors in variants(family).values():
        settled = add_host_shapes(tensors, network.config.position.limit)
        network({key: value.to("meta") for key, value in settled.items() if key != "attention"})


def test_padding_on_the_left_that_does_not_fit_is_refused():
    tensors = batch_for("encoder", lengths=[9, 4])

    assert "left_padding" not in add_host_shapes(
        tensors | {"left_padding": torch.tensor([0, 0])}, None
    )

    with pytest.raises(
        BatchError, match=r"up to 11 positions, got padding \[0, 8\] and lengths \[9, 4\]"
    ):
        add_host_shapes(tensors | {"left_padding": torch.tensor([0, 8])}, None)

    with pytest.raises(BatchError, match="prefix_length counts positions from 0"):
        add_host_shapes(
            tensors
            | {
                "left_padding": torch.tensor([0, 5]),
                "prefix_length": torch.tensor([1, 1]),
            },
            None,
        )


@pytest.mark.parametrize("name", ["position_ids", "decoder_position_ids"])
def test_a_place_beyond_the_table_is_named(name):
    network = built("encoder_decoder", position=PositionConfig(maximum=11))
    tensors = batch_for("encoder_decoder")

    assert network(tensors)

    tensors[name][2, 3] = 11
    with pytest.raises(BatchError, match=r"position id 11: .* holds 0 to 10;"):
        network(tensors)
    with pytest.raises(BatchError, match=r"position id 11: .* holds 0 to 10;"):
        network.logits(tensors)
