"""DeBERTa's attention and special layers against plain loops over positions."""

import pytest
import torch
from transformers.models import deberta_v2

from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from clozeline.model.layers.disentangled import (
    DisentangledAttention,
    MaskDecoder,
    RelativeTable,
    log_bucket,
    relative_row,
)
from clozeline.model.layers.masks import AttentionPlan
from clozeline.model.layers.stack import Stack
from tests.model.small_models import batch_for, built, changed, small_config, states


def made(**chosen):
    """Attention of 3 heads over 12 features, and its table; all weights are drawn."""
    torch.manual_seed(0)
    position = PositionConfig(
        kind="none", disentangled=DisentangledConfig(**{"max_distance": 3} | chosen)
    )
    config = small_config("encoder", dim=12, attention_heads=3, position=position)
    parts = DisentangledAttention(config), RelativeTable(config)
    for part in parts:
        for parameter in part.parameters():
            torch.nn.init.normal_(parameter, std=0.5)

    return parts


def test_scores_are_fp32_under_bf16():
    """Scores of a hundred differ by halves in bf16: from the same projections, only the output is
    rounded."""
    layer, table = (part.bfloat16() for part in made())
    x = (torch.randn(2, 6, 12) * 8).bfloat16()

    with torch.no_grad():
        found = layer(x, AttentionPlan(relative=table(torch.arange(6)[None])))
        parts = [part.weight for part in (layer.query, layer.key, layer.value)]

        assert all(weight.dtype == torch.bfloat16 for weight in parts)

        for module in (
            layer.query,
            layer.key,
            layer.value,
            layer.key_of_place,
            layer.query_of_place,
        ):
            module.register_forward_hook(lambda _, __, output: output.bfloat16().float())

        wanted = layer.float()(
            x.float(), AttentionPlan(relative=table.float()(torch.arange(6)[None]))
        )

    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), wanted, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("buckets", "max_distance"), [(256, 512), (32, 128), (6, 512), (5, 40), (4, 20)]
)
def test_buckets_are_those_of_transformers(buckets, max_distance):
    distances = torch.arange(-600, 601)
    found = log_bucket(distances, buckets, max_distance)
    theirs = deberta_v2.modeling_deberta_v2.make_log_bucket_position(
        distances, buckets, max_distance
    )

    assert torch.equal(found, theirs.long())


def test_rows_end_at_the_table():
    distances = torch.tensor([-600, -512, -511, -1, 0, 1, 511, 512, 600])
    assert relative_row(distances, 512, None).tolist() == [0, 0, 1, 511, 512, 513, 1023, 1023, 1023]
    assert relative_row(distances, 512, 256).tolist() == [0, 0, 1, 255, 256, 257, 511, 511, 511]


def test_dropout_is_applied_to_the_places():
    torch.manual_seed(0)
    layer, table = made()
    layer.position_dropout.p = 0.5
    x = torch.randn(1, 6, 12)
    plan = AttentionPlan(relative=table(torch.arange(6)[None]))

    assert not torch.equal(layer(x, plan), layer(x, plan))

    layer.eval()

    assert torch.equal(layer(x, plan), layer(x, plan))


def position(**chosen):
    return PositionConfig(
        kind="none", maximum=12, disentangled=DisentangledConfig(max_distance=4, **chosen)
    )


def config(**chosen):
    return small_config(
        "encoder", dim=12, attention_heads=3, type_vocab_size=0, position=position(**chosen)
    )


def drawn(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_mask_decoder_equals_a_plain_loop(steps):
    """Keys and values stay those of the states before.

    Queries begin with absolute places (§3.2, figure 2).
    """
    decoder = drawn(MaskDecoder(config(mask_decoder=steps), steps))
    stack = drawn(Stack(config(mask_decoder=steps), 2))
    x = torch.randn(2, 5, 12)
    places = torch.tensor([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    plan = AttentionPlan(relative=stack.relative(places))
    found = decoder(x, plan, None, plan)
    attention = decoder.attention.body
    after = decoder.feed_forward
    vectors = plan.relative.vectors
    rows = plan.relative.rows
    key = attention.key(x)
    value = attention.value(x)
    document_order_key = attention.key_of_place(vectors)
    place_query = attention.query_of_place(vectors)

    for row in range(2):
        query = torch.stack([x[row, i] + decoder.places.weight[places[row, i]] for i in range(5)])

        for _ in range(steps):
            mixed = torch.zeros(5, 12)
            projected = attention.query(query)

            for own in (
                slice(0, 4),
                slice(4, 8),
                slice(8, 12),
            ):
                for i in range(5):
                    scores = [
                        projected[i, own] @ (key[row, j, own] + document_order_key[at, own])
                        + key[row, j, own] @ place_query[at, own]
                        for j, at in enumerate(rows[row, i].tolist())
                    ]

                    mixed[i, own] = (
                        torch.softmax(torch.stack(scores) / 12**0.5, 0) @ value[row, :, own]
                    )

            query = decoder.attention.norm(query + attention.out(mixed))
            query = after.norm(query + after.body(query))

        assert torch.allclose(found[row], query, atol=1e-5)


@pytest.mark.parametrize(
    "chosen", [{"convolution": 3}, {"mask_decoder": 2}], ids=["convolution", "mask decoder"]
)
def test_documents_and_padding_stay_apart(chosen):
    """Packed documents give the states of each alone; a token of one changes nothing in another."""
    network = built("encoder", position=position(**chosen), type_vocab_size=0)
    tensors = batch_for("encoder", lengths=[11, 9])
    documents = torch.tensor([[0] * 5 + [1] * 6] * 2)
    restarting = torch.cat((torch.arange(5), torch.arange(6))).expand(2, 11)
    packed = tensors | {"document_ids": documents, "position_ids": restarting}
    before = states(network, packed)

    for row, (start, stop) in ((0, (0, 5)), (0, (5, 11)), (1, (5, 9))):
        alone = {
            "input_ids": tensors["input_ids"][row : row + 1, start:stop],
            "lengths": torch.tensor([stop - start]),
        }
        alone["position_ids"] = torch.arange(stop - start)[None]
        assert torch.allclose(before[row, start:stop], states(network, alone)[0], atol=1e-5)

    after = states(network, changed(packed, "input_ids", 0, 5))

    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.equal(before[0, 5:], after[0, 5:])

    after = states(network, changed(packed, "input_ids", 1, 9))

    assert torch.equal(before[1, 5:9], after[1, 5:9])
