"""The cost of a generated token against torch's counter, and the bytes that a cache holds."""

import pytest
from torch.utils.flop_counter import FlopCounterMode

from clozeline.extensions.inference.generation_cost import generation_cost
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from tests.model.small_models import built

SOURCE = 6
TOKENS = 5


def generate(network, source, tokens):
    """Read a prompt, then all new tokens but the last; return the decoder."""
    start = 1 if network.family.architecture == "encoder_decoder" else None
    decoder = IncrementalDecoder(network, [[*range(1, source + 1)]], start, False, tokens)
    for token in range(1, tokens):
        decoder.add([token])
    return decoder


def count(network, source, tokens):
    with FlopCounterMode(display=False) as counter:
        generate(network, source, tokens)
    return counter.get_total_flops()


@pytest.mark.parametrize("family", ["decoder", "encoder_decoder"])
def test_costs_are_those_that_torch_counts(family):
    network = built(family).eval()
    cost = generation_cost(network, SOURCE, TOKENS, int(family == "encoder_decoder"))

    # torch counts hidden pairs of the prompt, too: a few percent here
    assert count(network, SOURCE, TOKENS) / TOKENS == pytest.approx(cost.cached_flops, rel=0.1)

    # without a cache, each new token starts anew
    if family == "decoder":
        repeated = [count(network, SOURCE + number, 1) for number in range(TOKENS)]

        assert sum(repeated) / TOKENS == pytest.approx(cost.repeated_flops, rel=0.1)

    assert cost.repeated_flops > cost.cached_flops


@pytest.mark.parametrize("family", ["decoder", "encoder_decoder"])
def test_bytes_are_those_of_the_stored_keys_and_values(family):
    network = built(family).eval()
    cache = generate(network, SOURCE, TOKENS)._cache
    # keys and values [1, heads, positions, width] of each layer
    grown = list(cache._stored.values())
    read = sum(
        tensor[:, :, : cache.columns].numel() * tensor.element_size()
        for pair in grown
        for tensor in pair
    )
    projected = [
        value
        for owner, value in cache._sources.items()
        if owner is not network.family and isinstance(value, tuple)
    ]
    read += sum(tensor.numel() * tensor.element_size() for pair in projected for tensor in pair)

    start = int(family == "encoder_decoder")
    assert generation_cost(network, SOURCE, TOKENS, start).cache_bytes == read
