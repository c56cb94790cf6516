"""Keys of a stack of bottlenecks, and its input of neighbors; the test of its family compares it with transformers."""

import pytest
import torch
from pydantic import ValidationError

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.layers.bottleneck import neighbor_mask, trigrams
from clozeline.model.layers.masks import padding_mask
from tests.model.small_models import small_config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bottleneck_dim": 10}, "4 heads do not divide bottleneck_dim 10"),
        ({"kv_heads": 3}, "kv_heads: expected a divisor of attention_heads 4, got 3"),
        ({"qk_norm": "all"}, "qk_norm: expected None in a stack of bottlenecks, got all"),
        ({"norm_place": "pre"}, "norm_place: expected post in a stack of bottlenecks, got pre"),
        ({"final_norm": True}, "final_norm: expected False in a stack of bottlenecks, got True"),
        ({"position": {"kind": "rope"}}, "position.kind: expected learned in a stack of bottlenecks, got rope"),
        ({"share": ShareConfig(groups=1)}, "share.groups: a stack of bottlenecks shares no layers, got 1"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_keys_that_do_not_go_together_are_named(changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config("mobilebert", **changes)


def test_neighbors_by_a_loop():
    """A neighbor is zeros where the row, the padding or a document begins."""
    torch.manual_seed(0)
    vectors, lengths = torch.randn(4, 7, 3), [7, 5, 1, 7]
    documents = torch.tensor([[0] * 7, [0] * 7, [0] * 7, [0, 0, 1, 2, 2, 2, 2]])
    joined = neighbor_mask(padding_mask(torch.tensor(lengths), 7, vectors.device), documents)
    found = trigrams(vectors, joined)
    assert found.shape == (4, 7, 9)
    for row, length in enumerate(lengths):
        for place in range(length):
            for part, other in enumerate((place + 1, place, place - 1)):
                inside = 0 <= other < length and documents[row, other] == documents[row, place]
                wanted = vectors[row, other] if inside else torch.zeros(3)
                assert torch.equal(found[row, place, 3 * part : 3 * part + 3], wanted), (row, place, other)
