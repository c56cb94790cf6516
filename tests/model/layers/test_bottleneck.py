"""Keys of a stack of bottlenecks, and its input of neighbors.

The test of its family compares it with transformers.
"""

import pytest
from pydantic import ValidationError
from transformers import MobileBertConfig

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.layers.bottleneck import BottleneckConfig
from tests.model.small_models import small_config


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bottleneck_dim": 10}, "bottleneck_dim 10 is not a multiple of 4 heads"),
        ({"kv_heads": 3}, "kv_heads: expected a divisor of attention_heads 4, got 3"),
        ({"qk_norm": "all"}, "qk_norm: .* mobilebert does not read"),
        ({"share": ShareConfig(groups=1)}, "share.groups: .* mobilebert does not read"),
        ({"dropout": {"output": 0.1}}, "dropout.output: the family mobilebert needs 0.0"),
        ({"norm_place": "pre"}, 'norm_place: the family mobilebert needs "post", got pre'),
        ({"final_norm": True}, "final_norm: the family mobilebert needs false, got True"),
        ({"position": {"kind": "rope"}}, "position.kind: .* mobilebert does not read"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_keys_that_do_not_go_together_are_named(changes, message):
    with pytest.raises(ValidationError, match=message):
        small_config("mobilebert", **changes)


def test_defaults_are_those_of_the_published_model():
    config = small_config("mobilebert", feed_forwards=BottleneckConfig.feed_forwards)
    theirs = MobileBertConfig()
    assert config.feed_forwards == theirs.num_feedforward_networks
    assert config.wide_values is theirs.key_query_shared_bottleneck
    assert config.no_norm is (theirs.normalization_type == "no_norm")
