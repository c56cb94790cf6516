"""Two streams against transformers, their dependencies by gradients, and the encoder that has one
stream only."""

import pytest
import torch
from pydantic import ValidationError
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.configuration.layer import BiasConfig
from clozeline.model.configuration.position import PositionConfig
from tests.extensions.published.peers import saved
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.small_models import VOCABULARY, built

SMALL = {
    "norm_place": "post",
    "final_norm": False,
    "position": PositionConfig(kind="sinusoidal"),
    "bias": BiasConfig(qkv=False, out=False),
    "heads": {"masked_lm": {"transform": False}},
}

CLOSE = 1e-5
SIZES = {
    "one layer": {"d_model": 12, "n_head": 3, "n_layer": 1, "d_inner": 7},
    "three layers": {"d_model": 18, "n_head": 3, "n_layer": 3, "d_inner": 20},
}
FEATURES = torch.linspace(-1, 2, 24)
"""weights of a state's features: their plain sum is a constant after a norm"""
RANK = torch.tensor(
    [
        [0, 3, 0, 1, 0, 0, 2, 0, 4, 0, 0],
        [0, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        [0] * 11,
    ]
)
"""orders of four, two and no predictions; the second row has 7 tokens, the third 11"""
LENGTHS = torch.tensor([11, 7, 11])


def batch(side="right"):
    """Rows for both sides, with two segments.

    Ranks become the permutation mask and the targets of transformers.
    """
    draw = torch.Generator().manual_seed(1)
    ids = torch.randint(3, VOCABULARY, (3, 11), generator=draw)
    types = torch.tensor([0] * 4 + [1] * 5 + [2] * 2).expand(3, -1)
    rank = RANK
    places = torch.arange(11).expand(3, -1)
    valid = places < LENGTHS[:, None]
    starts = torch.zeros(3, dtype=torch.int64)

    if side == "left":
        rank = torch.stack(
            [row.roll(11 - length) for row, length in zip(rank, LENGTHS.tolist(), strict=True)]
        )
        starts = 11 - LENGTHS
        valid = places >= starts[:, None]

    index = torch.cat(
        [row * 11 + rank[row].argsort()[rank[row].sort().values > 0] for row in range(3)]
    )
    ours = {
        "input_ids": ids,
        "lengths": LENGTHS,
        "left_padding": starts,
        "type_ids": types,
        "rank": rank,
        "label_index": index,
        "label_ids": ids.flatten()[index],
        "row_weight": torch.ones(3),
    }

    blocked = (rank[:, None, :] >= rank[:, :, None]) & ((rank > 0)[:, None, :])
    return (
        ours,
        {"input_ids": ids, "attention_mask": valid.long(), "token_type_ids": types},
        blocked.float(),
        valid,
    )


def targets(rank):
    """One row of the target mapping for each prediction, in order.

    Of rows with fewer, the first place again.
    """
    mapping = torch.zeros(3, 4, 11)

    for row in range(3):
        for slot in range(4):
            found = (rank[row] == slot + 1).nonzero()
            mapping[row, slot, found[0, 0] if len(found) else 0] = 1

    return mapping


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_two_streams(tmp_path, size, side):
    """Logits, loss and gradients of the predicted places."""
    from clozeline.extensions.published.conversion.tensor_layouts import import_tensors
    from clozeline.extensions.published.conversion.type_selection import load_map

    theirs = saved(tmp_path, "xlnet", tie_word_embeddings=True, **size)
    model = build_checkpoint(read_checkpoint(tmp_path))
    ours, their, blocked, _ = batch(side)
    logits = theirs(**their, perm_mask=blocked, target_mapping=targets(ours["rank"])).logits
    wanted = torch.cat((logits[0, :4], logits[1, :2]))
    with torch.no_grad():
        found = model.logits(ours)["masked_lm"].flatten(0, 1)[ours["label_index"]]

    assert (found - wanted).abs().max() < CLOSE

    expected = F.cross_entropy(wanted, ours["label_ids"])
    expected.backward()
    loss = model(ours)["masked_lm"]
    (loss.total / loss.count).backward()

    assert loss.count == 6
    assert (loss.total / loss.count).item() == pytest.approx(expected.item(), rel=1e-5)

    own = gradients(model)

    assert_gradients_close(
        own, import_tensors(load_map("xlnet"), model.config, gradients(theirs), own), FLOAT32
    )


def reads(family, tensors, row):
    """Return the tokens [T] that each hidden state [T] of a row depends on, by gradients for token
    vectors."""
    seen = []
    family.tokens.register_forward_hook(
        lambda _module, _inputs, out: seen.append(out) or out.requires_grad_()
    )
    hidden = family(tensors)
    found = [
        torch.autograd.grad(state @ FEATURES, seen, retain_graph=True)[0][row]
        for state in hidden[row]
    ]
    return torch.stack(found).abs().amax(-1) > 0


def test_documents_of_a_row_do_not_see_each_other():
    family = built("xlnet", init={"std": 0.3}).eval().family
    documents = torch.tensor([[0] * 4 + [1] * 7])
    rank = torch.tensor([[0, 2, 0, 0, 0, 3, 0, 1, 0, 0, 0]])
    tensors = {
        "input_ids": torch.arange(11)[None],
        "lengths": torch.tensor([11]),
        "rank": rank,
    }
    found = reads(family, tensors | {"document_ids": documents}, 0)
    same = documents[0][None, :] == documents[0][:, None]
    lower = torch.where(
        (rank[0] > 0)[:, None], rank[0][None, :] < rank[0][:, None], rank[0][None, :] == 0
    )

    assert torch.equal(found, same & lower)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"position": {"kind": "rope"}},
            'position.kind: the family xlnet needs "sinusoidal", got rope',
        ),
        ({"bias": {"qkv": True, "out": False}}, "bias.qkv: the family xlnet needs false"),
        ({"attn_logit_softcapping": 9.0}, "attn_logit_softcapping: .* xlnet does not read"),
        ({"parallel": "two_norms", "norm_place": "pre"}, "parallel: .* xlnet does not read"),
        ({"local": {"window": 1, "global_every": 2}}, "local: .* xlnet does not read"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_keys_that_it_would_not_read_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        built("xlnet", **changes)


@pytest.mark.parametrize("queries", [1, 3])
def test_operations_are_those_of_the_forward(queries):
    """The counter of torch sees every product but those of the attention kernel: 4 a query, key and
    feature."""
    family = built("xlnet").family
    rank = torch.tensor([[0, 1, 0, 2, 3]]).where(torch.tensor(queries == 3), 0)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        family(
            {
                "input_ids": torch.arange(5)[None],
                "lengths": torch.tensor([5]),
                "rank": rank,
            }
        )
    kernel = family.config.layers * 4 * (5 + queries) * 5 * 24

    assert counter.get_total_flops() + kernel == family.flops(5, 0) + queries * family.label_flops(
        5
    )
