"""Continued rows against rows read at once."""

import pytest
import torch

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.cache import Cache
from tests.model.small_models import VOCABULARY, built

KINDS = {
    "learned": PositionConfig(maximum=16, offset=2),
    "sinusoidal": PositionConfig(kind="sinusoidal"),
    "rope": PositionConfig(kind="rope"),
    "rope in part": PositionConfig(kind="rope", partial_rotary_factor=0.4),
    "rope in some layers": PositionConfig(kind="rope", nope_layers=(1,)),
    "t5": PositionConfig(kind="t5", buckets=8, max_distance=12),
    "t5 in every layer": PositionConfig(kind="t5", buckets=8, max_distance=12, per_layer=True),
    "none": PositionConfig(kind="none"),
}
LENGTHS = torch.tensor([9, 4, 1])
"""tokens of the prompts"""
STEPS = 5


def perturbed(family, **changes):
    """A model in which no bias, gain or score is neutral."""
    network = built(family, head_dim=6, **changes).eval()
    draw = torch.Generator().manual_seed(4)

    for parameter in network.parameters():
        noise = torch.randn(parameter.shape, generator=draw)
        parameter.data = (
            noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
        )

    return network


def step_of(side, ids, places):
    return {f"{side}input_ids": ids, f"{side}position_ids": places, f"{side}lengths": LENGTHS}


def continued(network, ids, side, given, sizes):
    """Logits of the prompts' last tokens and of all later ones, read in steps of the given
    sizes."""
    cache = Cache(int(LENGTHS.max()) + sum(sizes))
    columns = torch.arange(int(LENGTHS.max()))
    found = []

    with torch.no_grad():
        places = columns.expand(len(ids), -1)
        prompts = ids[:, : len(columns)].masked_fill(columns >= LENGTHS[:, None], 0)
        hidden = network.family.decode(given | step_of(side, prompts, places), cache)
        found.append(hidden[torch.arange(len(ids)), LENGTHS - 1][:, None])
        read = 0

        for size in sizes:
            places = LENGTHS[:, None] + read + torch.arange(size)
            found.append(
                network.family.decode(given | step_of(side, ids.gather(1, places), places), cache)
            )
            read += size

        return network.heads["lm"].logits(torch.cat(found, dim=1))


def whole(network, ids, side, given, row):
    length = int(LENGTHS[row]) + STEPS
    alone = {name: value[row : row + 1] for name, value in given.items()}
    if "lengths" in alone:
        alone = {
            name: value if value.ndim == 1 else value[:, : alone["lengths"]]
            for name, value in alone.items()
        }

    with torch.no_grad():
        tensors = step_of(side, ids[row : row + 1, :length], torch.arange(length)[None])
        return network.logits(alone | tensors)["lm"][0, int(LENGTHS[row]) - 1 :]


def rows_of(columns=14):
    draw = torch.Generator().manual_seed(9)
    return torch.randint(1, VOCABULARY, (len(LENGTHS), columns), generator=draw)


SOURCE = {
    "input_ids": rows_of(6).flip(1),
    "position_ids": torch.arange(6).expand(3, 6),
    "lengths": torch.tensor([2, 6, 5]),
}
LOCAL = {"position": KINDS["rope"], "local": {"window": 2, "theta": 7.0}}
CASES = [
    *(
        ("decoder", {"position": kind}, given)
        for kind in KINDS.values()
        for given in ({}, {"prefix_length": LENGTHS})
    ),
    *(("encoder_decoder", {"position": kind}, SOURCE) for kind in KINDS.values()),
    (
        "decoder",
        {**LOCAL, "local": {**LOCAL["local"], "global_every": 2}},
        {},
    ),
    (
        "decoder",
        {
            **LOCAL,
            "local": {**LOCAL["local"], "layer_types": ["sliding_attention", "full_attention"]},
        },
        {},
    ),
    ("decoder", {"qk_norm": "head", "norm_place": "both"}, {}),
    ("decoder", {"qk_norm": "all", "norm": "rms_one"}, {}),
    ("decoder", {"attn_logit_softcapping": 0.3, "final_logit_softcapping": 0.5}, {}),
    ("decoder", {"layers": 4, "share": ShareConfig(groups=1)}, {}),
    ("encoder_decoder", {"decoder_dim": 16, "tied": False, "connector": {"hidden_dim": 6}}, SOURCE),
    (
        "encoder_decoder",
        {
            "layers": 4,
            "decoder_layers": 4,
            "share": ShareConfig(groups=1, group_layers=2, stacks=True),
        },
        SOURCE,
    ),
]


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1, 1, 1), (2, 3)],
    ids=["one by one", "in chunks"],
)
@pytest.mark.parametrize(("family", "changes", "given"), CASES)
def test_continued_rows_have_the_logits_of_whole_rows(family, changes, given, sizes):
    network = perturbed(family, **changes)
    ids = rows_of()
    side = "decoder_" if given is SOURCE else ""
    found = continued(network, ids, side, given, sizes)
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, side, given, row)).abs().max() < 1e-5


def test_a_source_is_read_once_and_each_token_once():
    network = perturbed("encoder_decoder")
    ids = rows_of()
    read = {}

    for name, module in network.named_modules():
        if name.endswith(".key"):
            module.register_forward_hook(
                lambda _, arguments, __, name=name: read.setdefault(name, []).append(
                    arguments[0].shape[1]
                )
            )

    source = {
        "input_ids": rows_of(6),
        "position_ids": torch.arange(6).expand(3, 6),
        "lengths": torch.tensor([6, 6, 6]),
    }

    continued(network, ids, "decoder_", source, (1, 1, 3))
    layers = {
        "encoder": [6],
        "cross": [6],
        "attention": [9, 1, 1, 3],
    }

    for name, sizes in read.items():
        part = (
            "encoder" if "encoder.layers" in name else "cross" if ".cross." in name else "attention"
        )
        assert sizes == layers[part], name

    assert len(read) == 2 + 3 + 3
