from clozeline.model.adapters._adapter import linear_maps
from tests.model.small_models import built


def test_patterns_are_of_whole_parts_at_the_end_of_a_path():
    family = built("encoder").family

    def paths(*patterns):
        return [
            path.removeprefix("stack.layers.") for path in linear_maps(family, "targets", patterns)
        ]

    assert paths("query") == ["0.attention.body.query", "1.attention.body.query"]
    assert paths("out", "1.attention.body.(query|key)") == [
        *("0.attention.body.out", "1.attention.body.query"),
        *("1.attention.body.key", "1.attention.body.out"),
    ]


def test_layers_that_share_weights_have_one_map():
    from clozeline.model.configuration.layer import ShareConfig

    family = built("encoder_decoder", layers=3, share=ShareConfig(groups=1, stacks=True)).family

    assert list(linear_maps(family, "targets", ["query"])) == [
        "encoder.layers.0.attention.body.query",
        "decoder.layers.0.cross.body.query",
    ]
