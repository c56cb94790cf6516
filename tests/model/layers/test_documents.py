"""Attention of documents to themselves and to their source: a call a document, one call for all,
and a mask."""

from itertools import accumulate, pairwise, product
from types import SimpleNamespace

import pytest
import torch

from clozeline.model.build import build_model
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.model.configuration.layer import DropoutConfig
from clozeline.model.configuration.position import LocalConfig, PositionConfig
from clozeline.model.layers.documents import (
    attend,
    attend_varlen,
    batch_documents,
    reads_documents,
)
from clozeline.model.layers.masks import AttentionPlan, PackedDocuments
from clozeline.model.layers.position import Position
from clozeline.model.layers.stack import Stack
from tests.model.closeness import FLOAT32, assert_gradients_close
from tests.model.small_models import VOCABULARY, batch_for, small_config

SIZES = [[4, 1, 6], [11], [2, 3, 3], [1, 1, 1, 1, 1]]
"""PackedDocuments of four rows of 11 places, the last two padded."""
WIDTH = 11
TARGETS = [[3, 0, 6], [9], [0, 4, 5], [2, 1, 0, 1, 5]]
"""What each document has of four rows of 9 places; the last one of a row has its padding, too."""
NAMES = ("cu_seqlens", "max_seqlen", "decoder_cu_seqlens", "decoder_max_seqlen")


def packed():
    """Numbers, bounds and restarting places of the documents, by loops."""
    numbers = []
    places = []
    bounds = [0]

    for row in SIZES:
        padding = WIDTH - sum(row)
        parts = [*row, padding] if padding else row
        bounds += [bounds[-1] + sum(parts[: n + 1]) for n in range(len(parts))]
        numbers.append([min(n, len(row) - 1) for n, size in enumerate(parts) for _ in range(size)])
        places.append([place for size in parts for place in range(size)])

    return {
        "document_ids": torch.tensor(numbers),
        "position_ids": torch.tensor(places),
        "lengths": torch.tensor([sum(row) for row in SIZES]),
        "cu_seqlens": torch.tensor(bounds, dtype=torch.int32),
        "max_seqlen": torch.tensor(max(b - a for a, b in pairwise(bounds))),
    }


def paired():
    """Both sides of encoder-decoder rows; the padding of a source has an empty target."""
    padded = [(sizes, sum(row) < WIDTH) for sizes, row in zip(TARGETS, SIZES, strict=True)]
    bounds = list(
        accumulate((size for sizes, more in padded for size in [*sizes, *[0] * more]), initial=0)
    )
    return packed() | {
        "decoder_document_ids": torch.tensor(
            [[n for n, size in enumerate(row) for _ in range(size)] for row in TARGETS]
        ),
        "decoder_position_ids": torch.tensor(
            [[place for size in row for place in range(size)] for row in TARGETS]
        ),
        "decoder_cu_seqlens": torch.tensor(bounds, dtype=torch.int32),
        "decoder_max_seqlen": torch.tensor(9),
    }


def stand_in(
    query,
    key,
    value,
    cu_seq_q,
    cu_seq_k,
    max_q,
    max_k,
    dropout,
    is_causal,
    return_debug_mask,
    *,
    scale,
    window_size_left,
    window_size_right,
):
    """The operator of `torch.nn.attention.varlen.varlen_attn`, as torch documents that, by loops
    over sequences, heads and queries; the mean over masks of dropout."""
    assert 0 <= dropout < 1
    assert not return_debug_mask
    assert query.ndim == key.ndim == value.ndim == 3
    assert cu_seq_q.dtype == cu_seq_k.dtype == torch.int32
    assert (type(max_q), type(max_k)) == (int, int)
    assert max_q == int(cu_seq_q.diff().max())
    assert max_k == int(cu_seq_k.diff().max())

    group = query.shape[1] // key.shape[1]
    left = window_size_left
    right = window_size_right

    assert is_causal == ((left, right) == (-1, 0))

    rows = []

    for first, end, start, stop in zip(
        cu_seq_q[:-1], cu_seq_q[1:], cu_seq_k[:-1], cu_seq_k[1:], strict=True
    ):
        for i in range(int(end - first)):
            near = [
                int(start) + j
                for j in range(int(stop - start))
                if (left < 0 or j >= i - left) and (right < 0 or j <= i + right)
            ]

            heads = []
            for head in range(query.shape[1]):
                scores = scale * key[near, head // group] @ query[int(first) + i, head]
                heads.append(scores.softmax(0) @ value[near, head // group])

            rows.append(torch.stack(heads))

    return (torch.stack(rows),)


MODELS = {
    "bert": ("encoder", {}),
    "modernbert": (
        "encoder",
        {
            "layers": 3,
            "local": LocalConfig(window=2, global_every=3),
            "head_dim": 6,
            "position": PositionConfig(kind="rope"),
        },
    ),
    "llama": ("decoder", {}),
    "mistral": ("decoder", {"local": LocalConfig(window=2, global_every=2)}),
    "gpt2": ("decoder", {"position": PositionConfig(kind="learned", maximum=16)}),
    "bart": ("encoder_decoder", {"position": PositionConfig(kind="learned", maximum=16)}),
    "t5": ("encoder_decoder", {}),
}


def gradients(family, changes, tensors):
    torch.manual_seed(0)
    model = build_model(small_config(family, **changes), VOCABULARY, {"pad": 0})
    (loss,) = model(tensors).values()
    loss.total.backward()
    return loss.total.detach(), {
        name: one.grad for name, one in model.named_parameters() if one.grad is not None
    }


@pytest.mark.parametrize("name", MODELS)
def test_loss_and_gradients_are_those_of_a_mask(monkeypatch, name):
    """The mask, one call a document, and the accelerator's kernel, for which a loop written from
    its page stands in."""
    family, changes = MODELS[name]
    tensors = batch_for(family, lengths=[11, 11, 8, 5]) | packed()
    called = []
    if family == "encoder_decoder":
        tensors |= paired()
    masked = gradients(
        family, changes, {key: one for key, one in tensors.items() if key not in NAMES}
    )

    for kernel, flash in ((attend, None), (attend_varlen, stand_in)):

        def chosen(*given, kernel=kernel):
            called.append(kernel)
            return kernel(*given)

        monkeypatch.setattr("clozeline.model.layers.documents._flash", flash)
        monkeypatch.setattr("clozeline.model.layers.attention.attend", chosen)
        monkeypatch.setattr("clozeline.model.layers.stack.reads_documents", lambda *_, **__: True)
        found = gradients(family, changes, tensors)

        torch.testing.assert_close(found[0], masked[0], rtol=1e-5, atol=1e-5)
        assert_gradients_close(found[1], masked[1], FLOAT32)
    # T5 has a bias within a side: only its decoder's cross-attention reads documents
    config = small_config(family, **changes)
    calls = {"t5": config.decoder_depth, "bart": config.layers + 2 * config.decoder_depth}

    assert len(called) == 2 * calls.get(name, config.layers)


@pytest.mark.parametrize(
    "change",
    [
        {"position": PositionConfig(kind="t5", buckets=8, max_distance=9)},
        {"position": PositionConfig(kind="t5", buckets=8, max_distance=9, per_layer=True)},
        {"dropout": DropoutConfig(attention=0.1)},
        {"attn_logit_softcapping": 0.2},
    ],
    ids=["bias", "bias in every layer", "dropout", "capped scores"],
)
def test_what_the_kernels_do_not_take_has_a_mask(monkeypatch, change):
    monkeypatch.setattr("clozeline.model.layers.attention.attend", None)
    prefix = {"prefix_length": torch.tensor([3, 0, 1, 2])}
    gradients(
        "decoder",
        {},
        batch_for("decoder", lengths=[11, 11, 8, 5]) | packed() | prefix,
    )
    gradients("encoder", change, batch_for("encoder", lengths=[11, 11, 8, 5]) | packed())


class Alibi(Position):
    """ALiBi (arXiv 2108.12409): a slope per head, times the distance."""

    def bias(self, queries, keys):
        slopes = 2.0 ** -torch.arange(1, 5)
        distance = (keys[:, None, :] - queries[:, :, None]).abs()
        return -slopes[:, None, None] * distance[:, None]


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_a_new_bias_holds_in_packed_documents(monkeypatch, causal, per_layer):
    """The states of a document are those that it has alone in a row."""
    monkeypatch.setattr("clozeline.model.layers.stack.build_position", lambda *_: Alibi())
    monkeypatch.setattr("clozeline.model.layers.stack.reads_documents", lambda *_, **__: True)
    position = PositionConfig(kind="t5", per_layer=per_layer)
    torch.manual_seed(0)
    stack = Stack(small_config("encoder", position=position), 2, causal=causal)
    vectors = torch.randn(1, WIDTH, 24)
    row = packed()
    documents = PackedDocuments(row["document_ids"][:1], torch.tensor([0, 4, 5, 11]), 6)
    together = stack(vectors, row["position_ids"][:1], None, None, documents=documents)
    alone = [
        stack(part, torch.arange(part.shape[1])[None], None, None)
        for part in vectors.split(SIZES[0], dim=1)
    ]

    torch.testing.assert_close(together, torch.cat(alone, dim=1))


def test_the_kernel_takes_these_arguments_and_no_value_is_read():
    """torch's own check of the operator's arguments, on tensors without values: a read would be an
    error."""
    tensors = add_host_shapes(paired() | batch_for("encoder", lengths=[11, 11, 8, 5]), None)

    assert tensors["max_seqlen"].shape == (11, 0)
    assert tensors["decoder_max_seqlen"].shape == (9, 0)

    moved = {name: one.to("meta") for name, one in tensors.items()}
    source = batch_documents(moved)
    target = batch_documents(moved, "decoder_")

    assert (source.longest, target.longest) == (11, 9)

    plans = [
        AttentionPlan(causal=causal, documents=source, window=window)
        for causal, window in product((False, True), (None, 2))
    ]
    paired_plan = AttentionPlan(documents=target, source_documents=source)
    options = {"dtype": torch.bfloat16, "device": "meta", "requires_grad": True}

    for plan, dropout in product((*plans, paired_plan), (0.0, 0.1)):
        columns = 9 if plan is paired_plan else WIDTH
        query = torch.empty(4, 4, columns, 8, **options)
        key = torch.empty(4, 2, WIDTH, 8, **options)
        mixed = attend_varlen(query, key, key, plan, 0.3, dropout)

        assert mixed.shape == query.shape

        for part, of in zip(
            torch.autograd.grad(mixed.sum(), (query, key)), (query, key), strict=True
        ):
            assert part.shape == of.shape


@pytest.mark.parametrize("training", [True, False])
def test_dropout_of_packed_rows_reaches_the_kernel(monkeypatch, training):
    """BERT's presets have a dropout of 0.1, with which a mask over entire rows would be two to
    three times slower."""
    rates = []

    def record(*given, **named):
        rates.append(given[7])
        return stand_in(*given, **named)

    monkeypatch.setattr("clozeline.model.layers.documents._flash", record)
    monkeypatch.setattr("clozeline.model.layers.attention.attend", attend_varlen)
    monkeypatch.setattr("clozeline.model.layers.stack.reads_documents", lambda *_, **__: True)
    model = build_model(
        small_config("encoder", dropout=DropoutConfig(attention=0.1)), VOCABULARY, {"pad": 0}
    )
    model.train(training)(batch_for("encoder", lengths=[11, 11, 8, 5]) | packed())

    assert rates == [0.1 if training else 0.0] * 2


@pytest.mark.parametrize(
    ("dtype", "width", "dropout", "major", "expected"),
    [
        (torch.bfloat16, 64, 0.0, 8, True),
        (torch.float16, 256, 0.0, 9, True),
        (torch.float32, 64, 0.0, 9, False),
        (torch.bfloat16, 257, 0.0, 9, False),
        (torch.bfloat16, 60, 0.0, 9, False),
        (torch.bfloat16, 64, 0.1, 9, True),
        (torch.bfloat16, 64, 0.0, 7, False),
    ],
    ids=["bf16", "fp16", "fp32", "wide", "odd width", "dropout", "old"],
)
def test_the_device_decides(monkeypatch, dtype, width, dropout, major, expected):
    states = SimpleNamespace(device=torch.device("cuda"), dtype=dtype)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(major=major))
    assert reads_documents(states, width, dropout) is expected


def test_what_a_cpu_reads_by_a_mask():
    assert reads_documents(torch.zeros(1), 512, 0.0)
    assert not reads_documents(torch.zeros(1), 64, 0.1)
    assert not reads_documents(torch.zeros(1), 64, 0.0, paired=True)
    assert not reads_documents(torch.zeros(1, device="meta"), 64, 0.0)
