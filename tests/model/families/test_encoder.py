"""Encoders whose rows are read from left to right."""

import pytest
import torch

from clozeline.model.configuration.position import PositionConfig
from tests.model.small_models import batch_for, built, changed, states

TYPES = "family.stack.embeddings.types.weight"
SMALL = {
    "norm_place": "post",
    "final_norm": False,
    "emb_norm": True,
    "type_vocab_size": 2,
    "heads": {"masked_lm": 1.0},
}


def modes_for(lengths, modes, prefixes):
    tensors = batch_for("encoder", lengths=lengths)
    return tensors | {"attention": torch.tensor(modes), "prefix_length": torch.tensor(prefixes)}


@pytest.mark.parametrize("kind", ["learned", "t5"])
@pytest.mark.parametrize(("mode", "prefix"), [(0, 0), (1, 0), (2, 0), (3, 4)])
def test_no_mode_of_attention_reads_what_it_may_not(kind, mode, prefix):
    distances = {"buckets": 8, "max_distance": 9} if kind == "t5" else {}
    position = PositionConfig(kind=kind, maximum=32, **distances)
    network = built("encoder", position=position, type_vocab_size=0, layers=1)
    tensors = modes_for([9, 11], [mode, 0], [prefix, 0])
    before = states(network, tensors)

    assert before.isfinite().all()

    for place in range(11):
        after = states(network, changed(tensors, "input_ids", 0, place))
        same = (before[0] == after[0]).all(-1)

        for query in range(9):
            reads = [True, place <= query, place >= query, place <= query or place < prefix][
                mode
            ] and place < 9
            assert bool(same[query]) != reads, (query, place)

        assert torch.equal(before[1], after[1])


@pytest.mark.parametrize("types", [1, 2])
def test_a_table_of_two_types_tells_segments_apart_in_every_mode(types):
    """What is read differs from a table of the modes by the types alone, not by which positions see
    which."""
    network = built("encoder", type_vocab_size=types)
    tensors = modes_for([11, 8, 5, 9], [0, 1, 2, 3], [0, 0, 0, 4])
    modes = {"type_ids": torch.tensor([0, 2, 3, 5])[:, None].expand(4, 11)}

    assert torch.equal(states(network, tensors | modes), states(network, tensors))

    if types > 1:
        segments = (torch.arange(11) > 3).long().expand(4, 11)
        found = states(network, tensors | modes | {"segment_ids": segments})
        wide = built("encoder", type_vocab_size=6)
        wide.load_state_dict(
            network.state_dict()
            | {TYPES: torch.cat((network.state_dict()[TYPES], torch.ones(4, 24)))}
        )

        assert torch.equal(found, states(wide, tensors | {"type_ids": segments}))
        assert not torch.equal(found, states(network, tensors))


def test_windows_count_along_the_row_where_places_begin_restarted():
    network = built(
        "encoder", position=PositionConfig(kind="none"), local={"window": 2, "global_every": 2}
    )
    tensors = batch_for("encoder", lengths=[8, 8], columns=8)
    restarted = tensors | {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]] * 2)}

    assert torch.equal(states(network, tensors), states(network, restarted))
