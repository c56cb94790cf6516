"""Rows that are read on as others, and prompts that cannot be read."""

import pytest
import torch

from clozeline.errors import BatchError
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.generation.decoding import Decoding
from clozeline.model.generation.generate import generate
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.layers.cache import Cache
from tests.model.generation.test_generate import perturbed
from tests.model.small_models import built
from tests.refusals import refused


def test_what_cannot_be_continued_is_refused():
    network = perturbed("decoder", position=PositionConfig(maximum=8))
    with pytest.raises(BatchError, match="text 1: it has 9 tokens, but the position table holds 8"):
        generate(network, [[1], [1] * 9], Decoding())
    with pytest.raises(BatchError, match="prompt 1: expected one token or more"):
        generate(network, [[1], []], Decoding())
    padded = {
        "input_ids": torch.ones(1, 3, dtype=torch.int64),
        "left_padding": torch.tensor([1]),
    }

    with pytest.raises(
        BatchError, match="prompts that continue a cache must be padded on the right"
    ):
        network.family.decode(padded, Cache(3))

    with refused(r"decoder_start: .* needs None"):
        generate(network, [[1]], Decoding(), decoder_start=2)
    with refused(r"decoder_start: .* needs the first id"):
        generate(perturbed("encoder_decoder"), [[1]], Decoding())
    with refused("evaluation mode"):
        generate(network.train(), [[1]], Decoding())
    with refused("need a head of lm; this model has masked_lm"):
        generate(built("encoder").eval(), [[1]], Decoding())
    with refused("causal stack, got Encoder"):
        generate(built("encoder", heads={"lm": 1.0}).eval(), [[1]], Decoding())


LONGROPE = {
    "kind": "longrope",
    "factor": 4.0,
    "original_maximum": 6,
    "short_factor": (1.5, 1.2, 3.0),
    "long_factor": (3.0, 9.0, 2.0),
}


def test_rows_are_read_again_where_the_frequencies_change():
    """Both ways: a row grows beyond the first context length, then it ends and shorter ones are
    left."""
    network = perturbed("decoder", position=PositionConfig(kind="rope", scaling=LONGROPE)).double()
    reading = IncrementalDecoder(
        network,
        [[5, 9, 3, 8, 4], [7, 2]],
        None,
        prefix=False,
        tokens=9,
    )
    rows = [[5, 9, 3, 8, 4], [7, 2]]

    def anew(row, longest):
        tensors = {
            "input_ids": torch.tensor([row]),
            "lengths": torch.tensor([len(row)]),
        }
        rest = torch.zeros(1, longest - len(row), dtype=torch.int64)
        tensors["input_ids"] = torch.cat((tensors["input_ids"], rest), dim=1)

        with torch.no_grad():
            return network.logits(tensors | {"position_ids": torch.arange(longest)[None]})["lm"][
                0, len(row) - 1
            ]

    for step in range(7):
        if step == 4:
            reading.select([1])
            rows = rows[1:]

        reading.add([10 + step] * len(rows))
        rows = [[*row, 10 + step] for row in rows]
        longest = max(map(len, rows))
        for row, scores in zip(rows, reading.scores, strict=True):
            assert torch.allclose(scores.double(), anew(row, longest), atol=1e-4), (step, longest)


def test_an_encoder_decoder_cannot_read_its_rows_again():
    network = perturbed("encoder_decoder", position=PositionConfig(kind="rope", scaling=LONGROPE))

    with refused("another value than longrope: the decoder of the family 'encoder_decoder'"):
        generate(network, [[1]], Decoding(), decoder_start=2)
