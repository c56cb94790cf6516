"""The first and the last layer of DeBERTa against plain loops over places."""

import pytest
import torch

from clozeline.model.configuration.position import DisentangledConfig, PositionConfig
from clozeline.model.layers.disentangled_layers import Convolution, ConvolutionLayer, MaskDecoder, build_layers
from clozeline.model.layers.layer import Layer
from clozeline.model.layers.masks import AttentionPlan, document_mask, padding_mask
from clozeline.model.layers.stack import Stack
from tests.model.small_models import batch_for, built, changed, small_config, states


def position(**chosen):
    return PositionConfig(kind="none", maximum=12, disentangled=DisentangledConfig(max_distance=4, **chosen))


def config(**chosen):
    return small_config("encoder", dim=12, attention_heads=3, type_vocab_size=0, position=position(**chosen))


def drawn(module):
    torch.manual_seed(0)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return module


@pytest.mark.parametrize("tokens", [1, 3, 5])
def test_a_convolution_equals_a_plain_loop(tokens):
    """Places of padding and of other documents count as zeros."""
    convolution = drawn(Convolution(4, tokens))
    x = torch.randn(2, 6, 4)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 0]])
    lengths = torch.tensor([6, 4])
    padding = padding_mask(lengths, 6, x.device)
    found = convolution(x, document_mask(documents) & padding)
    for row in range(2):
        for place in range(lengths[row]):
            wanted = convolution.bias.clone()
            for offset in range(tokens):
                at = place + offset - tokens // 2
                if 0 <= at < lengths[row] and documents[row, at] == documents[row, place]:
                    wanted += convolution.weight[:, :, offset] @ x[row, at]
            assert torch.allclose(found[row, place], wanted, atol=1e-6)
    alone = convolution(x, padding)
    assert torch.allclose(alone[1, :4], found[1, :4])
    assert torch.equal(convolution(x, None)[0], alone[0])
    assert torch.allclose(convolution(x, None)[0], torch.nn.functional.conv1d(
        x[:1].mT, convolution.weight, convolution.bias, padding=tokens // 2).mT[0], atol=1e-6)  # fmt: skip


def test_a_convolution_is_beside_the_first_layer():
    layer = drawn(ConvolutionLayer(config(convolution=3), 3))
    stack = drawn(Stack(config(convolution=3), 2))
    assert [type(part) for part in stack.layers] == [ConvolutionLayer, Layer]
    x, plan = torch.randn(2, 5, 12), AttentionPlan(relative=stack.relative(torch.arange(5)[None]))
    within = layer.feed_forward(layer.attention(x, plan))
    wanted = layer.norm(within + torch.nn.functional.gelu(layer.convolution(x, None)))
    assert torch.equal(layer(x, plan, None, plan), wanted)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_mask_decoder_equals_a_plain_loop(steps):
    """Keys and values stay those of the states before; queries begin with absolute places (§3.2, figure 2)."""
    decoder = drawn(MaskDecoder(config(mask_decoder=steps), steps))
    stack = drawn(Stack(config(mask_decoder=steps), 2))
    x, places = torch.randn(2, 5, 12), torch.tensor([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    plan = AttentionPlan(relative=stack.relative(places))
    found = decoder(x, plan, None, plan)
    attention, after = decoder.attention.body, decoder.feed_forward
    vectors, rows = plan.relative.vectors, plan.relative.rows
    key, value = attention.key(x), attention.value(x)
    place_key, place_query = attention.key_of_place(vectors), attention.query_of_place(vectors)
    for row in range(2):
        query = torch.stack([x[row, i] + decoder.places.weight[places[row, i]] for i in range(5)])
        for _ in range(steps):
            mixed = torch.zeros(5, 12)
            projected = attention.query(query)
            for own in (slice(0, 4), slice(4, 8), slice(8, 12)):
                for i in range(5):
                    scores = [
                        projected[i, own] @ (key[row, j, own] + place_key[at, own])
                        + key[row, j, own] @ place_query[at, own]
                        for j, at in enumerate(rows[row, i].tolist())
                    ]
                    mixed[i, own] = torch.softmax(torch.stack(scores) / 12**0.5, 0) @ value[row, :, own]
            query = decoder.attention.norm(query + attention.out(mixed))
            query = after.norm(query + after.body(query))
        assert torch.allclose(found[row], query, atol=1e-5)


def test_absolute_places_enter_with_the_last_layer_alone():
    """Shifted places leave the states of all layers but the last as they are."""
    stack = drawn(Stack(config(mask_decoder=2), 3)).eval()
    assert [type(part) for part in stack.layers] == [Layer, Layer, MaskDecoder]
    vectors, places = torch.randn(1, 5, 12), torch.arange(5)[None]
    seen = []
    stack.layers[-1].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    first, shifted = (stack(vectors, at, None, None) for at in (places, places + 7))
    assert torch.equal(*seen)
    assert not torch.allclose(first, shifted, atol=1e-3)
    assert len(build_layers(config(), 3, cross=False)) == 3


@pytest.mark.parametrize("chosen", [{"convolution": 3}, {"mask_decoder": 2}], ids=["convolution", "mask decoder"])
def test_documents_and_padding_stay_apart(chosen):
    """Packed documents give the states of each alone; a token of one changes nothing in another."""
    network = built("encoder", position=position(**chosen), type_vocab_size=0)
    tensors = batch_for("encoder", lengths=[11, 9])
    documents = torch.tensor([[0] * 5 + [1] * 6] * 2)
    restarting = torch.cat((torch.arange(5), torch.arange(6))).expand(2, 11)
    packed = tensors | {"document_ids": documents, "position_ids": restarting}
    before = states(network, packed)
    for row, (start, stop) in ((0, (0, 5)), (0, (5, 11)), (1, (5, 9))):
        alone = {"input_ids": tensors["input_ids"][row : row + 1, start:stop], "lengths": torch.tensor([stop - start])}
        alone["position_ids"] = torch.arange(stop - start)[None]
        assert torch.allclose(before[row, start:stop], states(network, alone)[0], atol=1e-5)
    after = states(network, changed(packed, "input_ids", 0, 5))
    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.equal(before[0, 5:], after[0, 5:])
    after = states(network, changed(packed, "input_ids", 1, 9))
    assert torch.equal(before[1, 5:9], after[1, 5:9])
