"""Logits, losses and gradients against transformers' eager attention, with random weights in every parameter."""

import pytest
import torch
from torch.nn import functional as F

from clozeline.model.configuration.position import PositionConfig
from tests.model.closeness import FLOAT32, assert_gradients_close, gradients
from tests.model.model_peers import PEERS, VOCABULARY, Size

SIZES = {
    "one layer": Size(dim=12, heads=3, kv_heads=3, head_dim=4, ffn=20, layers=1, decoder_layers=1),
    "three layers": Size(dim=24, heads=4, kv_heads=2, head_dim=6, ffn=40, layers=3, decoder_layers=2),
    "odd": Size(dim=50, heads=5, kv_heads=1, head_dim=6, ffn=33, layers=2, decoder_layers=3),
}
LENGTHS = {"full": [11, 11, 11], "padded": [11, 1, 6]}
CLOSE = 1e-5


def batch(pair, lengths, columns=11):
    """Rows for both sides: ours by index, theirs by mask and dense labels."""
    draw = torch.Generator().manual_seed(5)
    rows = torch.tensor(lengths)
    places = torch.arange(columns).expand(len(lengths), columns)
    valid = places < rows[:, None]
    ids = torch.randint(3, VOCABULARY, valid.shape, generator=draw).masked_fill(~valid, 0)
    tensors = {"input_ids": ids, "position_ids": places.clone(), "lengths": rows, "row_weight": torch.ones(len(rows))}
    theirs = {"input_ids": ids, "attention_mask": valid.long()}
    if pair.ours.config.languages:
        tensors["languages"] = theirs["langs"] = torch.randint(0, 3, ids.shape, generator=draw)
    if pair.ours.config.family == "encoder_decoder":
        target = torch.randint(3, VOCABULARY, (len(lengths), 7), generator=draw)
        shown = places[:, :7]
        valid = shown < rows.clamp(max=7)[:, None]
        tensors |= {"decoder_input_ids": target, "decoder_position_ids": shown, "decoder_lengths": rows.clamp(max=7)}
        theirs |= {"decoder_input_ids": target, "decoder_attention_mask": valid.long()}
    labels = torch.randint(3, VOCABULARY, valid.shape, generator=draw)
    sparse = torch.rand(valid.shape, generator=draw) < 0.5
    labeled = valid & sparse if "masked_lm" in pair.ours.heads else valid
    tensors["label_index"] = labeled.flatten().nonzero().squeeze(1)
    tensors["label_ids"] = labels[labeled]
    return tensors, theirs, valid, labels.masked_fill(~labeled, -100)


def largest_difference(pair, lengths):
    tensors, theirs, valid, _ = batch(pair, lengths)
    with torch.no_grad():
        (ours,) = pair.ours.logits(tensors).values()
        return (ours - pair.theirs(**theirs).logits)[valid].abs().max().item()


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("peer", PEERS)
def test_logits_equal(peer, size, lengths):
    assert largest_difference(PEERS[peer](size), lengths) < CLOSE


@pytest.mark.parametrize("peer", PEERS)
def test_loss_and_gradients_equal(peer):
    pair = PEERS[peer](SIZES["three layers"])
    pair.ours.double()
    pair.theirs.double()
    tensors, theirs, _, labels = batch(pair, LENGTHS["padded"])
    (loss,) = pair.ours(tensors).values()
    (loss.total / loss.count).backward()
    expected = F.cross_entropy(pair.theirs(**theirs).logits.flatten(0, 1), labels.flatten())
    expected.backward()
    assert loss.count == int((labels != -100).sum())
    assert (loss.total / loss.count).item() == pytest.approx(expected.item(), rel=1e-5)
    within = FLOAT32 if pair.ours.config.norm == "rms" else 1e-6
    assert_gradients_close(gradients(pair.ours), pair.of_theirs(gradients(pair.theirs)), within)


WRONG = {
    "bert eps": ("bert", {"eps": 1e-5}),
    "bert tanh": ("bert", {"activation": "gelu_tanh"}),
    "albert erf": ("albert", {"activation": "gelu"}),
    "megatron post-norm": ("megatron_bert", {"norm_place": "post"}),
    "bert pre-norm": ("bert", {"norm_place": "pre"}),
    "gpt2 erf": ("gpt2", {"activation": "gelu"}),
    "gpt2 scale": ("gpt2", {"qk_scale": 0.4}),
    "llama theta": ("llama", {"position": PositionConfig(kind="rope", theta=400.0)}),
    "t5 scores": ("t5", {"qk_scale": None}),
    "t5 output": ("t5", {"out_scale": False}),
    "t5 distance": ("t5", {"position": PositionConfig(kind="t5", buckets=8, max_distance=12)}),
    "t5 v1.1 activation": ("t5_v1_1", {"activation": "gelu"}),
    "bart scale": ("bart", {"emb_scale": True}),
    "xlm eps": ("xlm", {"eps": 1e-4}),
    "xlm activation": ("xlm", {"activation": "relu"}),
    "bart activation": ("bart", {"activation": "gelu_tanh"}),
    "deberta eps": ("deberta", {"eps": 1e-5}),
    "deberta scale": ("deberta", {"qk_scale": 6**-0.5}),
    "deberta v2 activation": ("deberta_v2", {"activation": "gelu_tanh"}),
}


@pytest.mark.parametrize(("peer", "changes"), WRONG.values(), ids=WRONG)
def test_a_wrong_switch_is_seen(peer, changes):
    pair = PEERS[peer](SIZES["three layers"], **changes)
    assert largest_difference(pair, LENGTHS["padded"]) > CLOSE


@pytest.mark.parametrize(
    ("peer", "first", "second"),
    [
        ("bert", "query", "key"),
        ("llama", "key", "value"),
        ("llama", "gate", "up"),
        ("t5_v1_1", "gate", "up"),
        ("deberta_v2", "query", "key"),
    ],
)
def test_exchanged_projections_are_seen(peer, first, second):
    pair = PEERS[peer](SIZES["three layers"])
    for module in pair.ours.modules():
        if hasattr(module, first) and hasattr(module, second):
            one, other = getattr(module, first), getattr(module, second)
            setattr(module, first, other)
            setattr(module, second, one)
    assert largest_difference(pair, LENGTHS["padded"]) > CLOSE


def test_llama_with_tied_embeddings():
    assert largest_difference(PEERS["llama"](SIZES["three layers"], tied=True), LENGTHS["padded"]) < CLOSE
