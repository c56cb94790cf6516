"""Continued rows against rows read at once."""

import pytest
import torch

from clozeline.model.configuration.layer import ShareConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.layers.cache import Cache
from clozeline.model.layers.masks import plan_continuation
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
        parameter.data = noise * parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 1 + noise * 0.2
    return network


def step_of(side, ids, places):
    return {f"{side}input_ids": ids, f"{side}position_ids": places, f"{side}lengths": LENGTHS}


def continued(network, ids, side, given, sizes):
    """Logits of the prompts' last tokens and of all later ones, read in steps of the given sizes."""
    cache, columns = Cache(int(LENGTHS.max()) + sum(sizes)), torch.arange(int(LENGTHS.max()))
    found = []
    with torch.no_grad():
        places = columns.expand(len(ids), -1)
        prompts = ids[:, : len(columns)].masked_fill(columns >= LENGTHS[:, None], 0)
        hidden = network.family.decode(given | step_of(side, prompts, places), cache)
        found.append(hidden[torch.arange(len(ids)), LENGTHS - 1][:, None])
        read = 0
        for size in sizes:
            places = LENGTHS[:, None] + read + torch.arange(size)
            found.append(network.family.decode(given | step_of(side, ids.gather(1, places), places), cache))
            read += size
        return network.heads["lm"].logits(torch.cat(found, dim=1))


def whole(network, ids, side, given, row):
    """Logits of one row alone, read at once."""
    length = int(LENGTHS[row]) + STEPS
    alone = {name: value[row : row + 1] for name, value in given.items()}
    if "lengths" in alone:
        alone = {name: value if value.ndim == 1 else value[:, : alone["lengths"]] for name, value in alone.items()}
    with torch.no_grad():
        tensors = step_of(side, ids[row : row + 1, :length], torch.arange(length)[None])
        return network.logits(alone | tensors)["lm"][0, int(LENGTHS[row]) - 1 :]


def rows_of(columns=14):
    draw = torch.Generator().manual_seed(9)
    return torch.randint(1, VOCABULARY, (len(LENGTHS), columns), generator=draw)


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3)], ids=["one by one", "in chunks"])
@pytest.mark.parametrize("prefix", [False, True], ids=["causal", "prefix"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_decoder_gives_the_logits_of_whole_rows(kind, prefix, sizes):
    network, ids = perturbed("decoder", position=KINDS[kind]), rows_of()
    given = {"prefix_length": LENGTHS} if prefix else {}
    found = continued(network, ids, "", given, sizes)
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, "", given, row)).abs().max() < 1e-5


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3)], ids=["one by one", "in chunks"])
@pytest.mark.parametrize("layers", [{"global_every": 2}, {"layer_types": ["sliding_attention", "full_attention"]}])
def test_a_continued_decoder_with_windows(layers, sizes):
    local = {"window": 2, "theta": 7.0, **layers}
    network, ids = perturbed("decoder", position=KINDS["rope"], local=local), rows_of()
    found = continued(network, ids, "", {}, sizes)
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, "", {}, row)).abs().max() < 1e-5


@pytest.mark.parametrize(
    "switches",
    [
        {"qk_norm": "head", "norm_place": "both"},
        {"qk_norm": "all", "norm": "rms_one"},
        {"attn_logit_softcapping": 0.3, "final_logit_softcapping": 0.5},
    ],
    ids=["norms of heads", "norms of all heads", "caps"],
)
def test_a_continued_decoder_with_norms_or_caps(switches):
    network, ids = perturbed("decoder", **switches), rows_of()
    found = continued(network, ids, "", {}, (1, 2, 2))
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, "", {}, row)).abs().max() < 1e-5


@pytest.mark.parametrize("sizes", [(1, 1, 1, 1, 1), (2, 3)], ids=["one by one", "in chunks"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_continued_encoder_decoder_gives_the_logits_of_whole_rows(kind, sizes):
    network, ids = perturbed("encoder_decoder", position=KINDS[kind]), rows_of()
    sources = rows_of(6).flip(1)
    given = {
        "input_ids": sources,
        "position_ids": torch.arange(6).expand(3, 6),
        "lengths": torch.tensor([2, 6, 5]),
    }
    found = continued(network, ids, "decoder_", given, sizes)
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, "decoder_", given, row)).abs().max() < 1e-5


def test_a_continued_decoder_of_another_width():
    sizes = {"decoder_dim": 16, "tied": False, "connector": {"hidden_dim": 6}}
    network, ids = perturbed("encoder_decoder", **sizes), rows_of()
    given = {"input_ids": ids, "position_ids": torch.arange(14).expand(3, 14), "lengths": torch.tensor([14, 3, 9])}
    found = continued(network, ids, "decoder_", given, (1, 2, 2))
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, "decoder_", given, row)).abs().max() < 1e-5


@pytest.mark.parametrize("share", [{"groups": 1}, {"groups": 1, "group_layers": 2, "stacks": True}], ids=str)
def test_layers_that_share_weights_keep_keys_of_their_own(share):
    family, side = ("encoder_decoder", "decoder_") if "stacks" in share else ("decoder", "")
    depth = {"layers": 4, "decoder_layers": 4} if side else {"layers": 4}
    network, ids = perturbed(family, **depth, share=ShareConfig(**share)), rows_of()
    source = {"input_ids": ids, "position_ids": torch.arange(14).expand(3, 14), "lengths": torch.tensor([14, 3, 9])}
    given = source if side else {}
    found = continued(network, ids, side, given, (1, 2, 2))
    for row in range(len(ids)):
        assert (found[row] - whole(network, ids, side, given, row)).abs().max() < 1e-5


def test_a_source_is_read_once_and_each_token_once():
    network, ids = perturbed("encoder_decoder"), rows_of()
    read = {}
    for name, module in network.named_modules():
        if name.endswith(".key"):
            module.register_forward_hook(
                lambda _, arguments, __, name=name: read.setdefault(name, []).append(arguments[0].shape[1])
            )
    source = {"input_ids": rows_of(6), "position_ids": torch.arange(6).expand(3, 6), "lengths": torch.tensor([6, 6, 6])}
    continued(network, ids, "decoder_", source, (1, 1, 3))
    layers = {"encoder": [6], "cross": [6], "attention": [9, 1, 1, 3]}
    for name, sizes in read.items():
        part = "encoder" if "encoder.layers" in name else "cross" if ".cross." in name else "attention"
        assert sizes == layers[part], name
    assert len(read) == 2 + 3 + 3


def test_the_state_of_a_recurrent_model_is_the_last_one():
    cache, owner = Cache(3), torch.nn.Module()
    assert cache.recall(owner) is None
    cache.remember(owner, 1)
    cache.remember(owner, 2)
    assert (cache.recall(owner), cache.recall(torch.nn.Module())) == (2, None)


def test_a_place_reads_up_to_itself():
    cache = Cache(7)
    cache.extend(torch.arange(4).expand(2, 4))
    places = torch.tensor([[4], [2]])
    columns = cache.extend(places)
    assert columns.tolist() == [[0, 1, 2, 3, 4]]
    visible = plan_continuation(None, None, places, columns, None, cache).mask
    assert visible[:, 0, 0].tolist() == [[True] * 5, [True, True, True, False, False]]
    prefix = torch.tensor([[True, True, True, True, False], [False] * 5])[:, None, None]
    visible = plan_continuation(None, None, torch.tensor([[0], [2]]), columns, prefix, cache).mask
    assert visible[:, 0, 0].tolist() == [[True] * 4 + [False], [True, True, True, False, False]]
