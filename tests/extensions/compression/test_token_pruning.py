"""Token pruning against one row at a time, written out token by token.

The ends of the rules, and refusals.
"""

import math

import pytest
import torch

from clozeline.extensions.compression.token_pruning import TokenPruning
from clozeline.extensions.compression.token_rules import TopTokens
from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import DisentangledConfig, LocalConfig, PositionConfig
from clozeline.model.layers.position import rotate
from clozeline.tools.start.contracts.heads import rows_of
from tests.model.small_models import batch_for, built
from tests.refusals import refused

LAYERS = 5
HEADS = 3
DIM = 18
TASKS = {"classification": {"classes": 3}, "tagging": {"classes": 4}, "masked_lm": 1.0}


MODELS = {
    "learned": {},
    "final_norm": {"final_norm": True, "norm_place": "pre"},
    "rope": {"position": PositionConfig(kind="rope")},
    "t5": {"position": PositionConfig(kind="t5", buckets=8, max_distance=6)},
    "t5 in every layer": {
        "position": PositionConfig(kind="t5", buckets=8, max_distance=6, per_layer=True)
    },
    "local": {
        "position": PositionConfig(kind="rope"),
        "local": LocalConfig(window=2, global_every=2, theta=50.0),
    },
    "norms": {"qk_norm": "all", "norm_place": "pre"},
    "norms of heads": {
        "qk_norm": "head",
        "norm_place": "pre",
        "position": PositionConfig(kind="rope"),
    },
    "capped": {
        "attn_logit_softcapping": 0.5,
        "position": PositionConfig(kind="t5", buckets=8, max_distance=6),
    },
    "grouped": {"attention_heads": 6, "kv_heads": 3, "head_dim": 4},
    "shared": {"share": ShareConfig(groups=1), "emb_dim": 8},
}
SHARES = (1.0, 0.8, 0.8, 0.5, 0.2)


def model_of(name="learned", **changes):
    """A model in fp64 whose attention is uneven."""
    model = built(
        "encoder",
        **{"layers": LAYERS, "dim": DIM, "attention_heads": HEADS, "heads": TASKS}
        | MODELS[name]
        | changes,
    )

    draw = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw), alpha=0.3)

    return model.double().eval()


def batch(rows=7):
    draw = torch.Generator().manual_seed(8)
    tensors = batch_for(
        "encoder", lengths=[11, *torch.randint(1, 12, (rows - 2,), generator=draw).tolist(), 6]
    )
    tensors["label"] = torch.randint(3, (rows,), generator=draw)
    tensors["label_ids"] = tensors["label_ids"] % 4
    return tensors


def one_row(tensors, row):
    alone = rows_of(tensors, slice(row, row + 1))
    length = int(tensors["lengths"][row])
    return alone | {name: alone[name][:, :length] for name in ("input_ids", "position_ids")}


def norm_of(residual, x):
    return residual.norm(x) if residual.before else x


def attend(model, number, tensors, last, left):
    """States after the attention of a layer, and the sums of attention that the positions receive,
    by softmax."""
    stack = model.family.stack
    config = model.config
    positions = tensors["position_ids"]
    layer = stack.layers[stack.order[number]]
    local = number in stack.local_layers
    position = stack.local_position if local else stack.position
    body = layer.attention.body
    before = norm_of(layer.attention, last[left])
    query = body.query(before)
    key = body.key(before)
    value = body.value(before)
    if config.qk_norm == "all":
        query = body.query_norm(query)
        key = body.key_norm(key)

    query, key, value = (
        part.view(len(left), -1, body.head_dim).transpose(0, 1) for part in (query, key, value)
    )
    if config.qk_norm == "head":
        query = body.query_norm(query)
        key = body.key_norm(key)

    if (angles := position.rotation(positions[:, left])) is not None:
        query, key = (rotate(part[None], angles)[0] for part in (query, key))
    key, value = (part.repeat_interleave(len(query) // len(part), dim=0) for part in (key, value))
    scores = body.scale * query @ key.mT
    if body.softcap is not None:
        scores = body.softcap * torch.tanh(scores / body.softcap)
    if (bias := (layer.position or position).bias(positions, positions)) is not None:
        scores = scores + bias[0][:, left][:, :, left]
    if local:
        far = torch.tensor([[abs(p - q) > stack.window for q in left] for p in left])
        scores = scores.masked_fill(far, -math.inf)

    shares = scores.softmax(-1)
    out = body.out((shares @ value).transpose(0, 1).flatten(1))
    attended = (
        last[left] + out if layer.attention.before else layer.attention.norm(last[left] + out)
    )
    return last.index_copy(0, torch.tensor(left), attended), shares.sum((0, 1))


def embed(model, tensors):
    stack = model.family.stack
    ids = tensors["input_ids"]
    return stack.embeddings(
        model.family.tokens(ids), stack.position, tensors["position_ids"], None
    )[0]


def slow_states(model, tensors):
    """States [T, dim] and kept tokens of one row, by lists of the positions that are left."""
    stack = model.family.stack
    length = tensors["input_ids"].shape[1]
    last = embed(model, tensors)
    left = list(range(length))
    kept = []

    for number, weights in enumerate(stack.order):
        last, received = attend(model, number, tensors, last, left)
        left = most_attended(number, received.tolist(), left, length)
        last = last.index_copy(
            0, torch.tensor(left), stack.layers[weights].feed_forward(last[left])
        )
        kept.append(len(left))

    return stack.norm(last).detach(), kept


def most_attended(number, received, left, length):
    """Positions that stay, by the sums of attention."""
    count = math.ceil(SHARES[number] * length - 1e-9)
    order = sorted(left[1:], key=lambda position: -received[left.index(position)])
    return sorted([0, *order[: count - 1]])


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_a_batch_are_those_computed_one_by_one_and_token_by_token(name):
    model = model_of(name)
    tensors = batch()
    fast = TopTokens(SHARES)

    with torch.no_grad():
        pruned = TokenPruning(model, fast).prune(tensors)
        every = []

        for row, length in enumerate(tensors["lengths"].tolist()):
            states, kept = slow_states(model, one_row(tensors, row))
            torch.testing.assert_close(pruned.hidden[row, :length], states, rtol=1e-9, atol=1e-9)
            assert pruned.kept[row].tolist() == kept
            every += [count < length for count in kept]

        alone = TokenPruning(model, fast).prune(one_row(tensors, 2))
        scores = TokenPruning(model, fast).logits(tensors)["tagging"]

        torch.testing.assert_close(scores, model.heads["tagging"].logits(pruned.hidden))

    assert any(every), "tokens were dropped"

    length = int(tensors["lengths"][2])

    torch.testing.assert_close(alone.hidden[0], pruned.hidden[2, :length], rtol=1e-9, atol=1e-9)
    assert alone.flops[0] == pruned.flops[2]


@pytest.mark.parametrize("name", MODELS)
def test_keeping_all_is_bit_identical(name):
    model = model_of(name).float()
    tensors = batch()
    lengths = tensors["lengths"].tolist()

    pruning = TokenPruning(model, TopTokens((1.0,) * LAYERS))
    scores = pruning.logits(tensors)
    full = model.logits(tensors)

    assert all(torch.equal(scores[head], full[head]) for head in TASKS)

    pruned = pruning.prune(tensors)

    assert pruned.kept.tolist() == [[length] * LAYERS for length in lengths]
    assert pruned.flops.tolist() == pytest.approx(
        [model.family.flops(length, 0) for length in lengths]
    )

    losses = pruning(tensors)
    expected = model(tensors)

    assert all(torch.equal(losses[head].total, expected[head].total) for head in TASKS)


def test_the_first_token_always_stays_and_padding_never_does():
    """Padding that would receive all attention, next to a first token that receives none."""
    attention = torch.tensor(
        [[torch.inf, 0.3, 0.2, -torch.inf, -torch.inf], [torch.inf, 0.1, 0.1, 0.4, 0.1]]
    )
    lengths = torch.tensor([3, 5])
    kept = TopTokens((0.6,)).keep(0, attention, lengths)

    assert kept.int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 0, 1, 0]], (
        "of equal ones the first stays"
    )

    model = model_of()
    tensors = batch()
    pruning = TokenPruning(model, TopTokens((1e-6,) * LAYERS))

    assert pruning.prune(tensors).kept.tolist() == [[1] * LAYERS] * 7


def test_flops_fall_as_the_sum_over_the_tokens_of_each_layer():
    model = model_of()
    tensors = batch()
    inner = model.config.ffn_dim
    pruned = TokenPruning(model, TopTokens(SHARES)).prune(tensors)

    for row, length in enumerate(tensors["lengths"].tolist()):
        total = 0
        before = length

        for number, share in enumerate(SHARES):
            count = math.ceil(share * length - 1e-9)
            assert pruned.kept[row, number] == count
            # the scores, to choose by
            again = 2 * DIM * before**2 if share < ([1.0, *SHARES][number]) else 0
            total += 8 * DIM**2 * before + 4 * DIM * before**2 + again + 4 * DIM * inner * count
            before = count

        assert pruned.flops[row].item() == total

    assert pruned.flops[0] < 0.8 * model.family.flops(11, 0)


def test_refusals():
    model = model_of()
    usual = TopTokens((1.0, 1.0))
    disentangled = PositionConfig(kind="none", disentangled=DisentangledConfig())
    mixing = {"tagging": {"classes": 3, "scalar_mix": True}}
    for wrong, rule, words in (
        (
            model,
            TopTokens((0.5, 0.6, 0.5, 0.5, 0.5)),
            r"shares: expected a number in .* per layer \(5\)",
        ),
        (
            built("decoder"),
            usual,
            "token pruning: expected an encoder .*, got model.family=decoder",
        ),
        (
            built("encoder", position=disentangled, final_norm=False),
            usual,
            "token pruning: .*, got model.position.disentangled",
        ),
        (
            built("encoder", heads=mixing),
            usual,
            "expected heads that read the last states of one row, got tagging",
        ),
    ):
        with refused(words):
            TokenPruning(wrong, rule)
