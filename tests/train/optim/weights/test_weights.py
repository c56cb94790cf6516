"""Groups and flat buffers of parameters, and frozen ones: byte for byte as they were."""

import re
from math import prod

import pytest
import torch
from torch import nn

from clozeline.model.adapters import Adapter
from clozeline.model.build import build_model
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.parameters.freezing import freeze, frozen_count, frozen_modules
from clozeline.model.registries import FAMILIES
from clozeline.train.checkpoint.stored_checkpoint import (
    WEIGHT,
    CheckpointReader,
    ParameterRecord,
    StoredCheckpoint,
    tiling_problem,
)
from clozeline.train.optim.weights.parameter_groups import depths_below_heads, parameter_groups
from tests.contracts import contract
from tests.model.small_models import SPELLINGS, small_config
from tests.model.small_models import VOCABULARY as WORDS
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import start, steps
from tests.train.synthetic import VOCABULARY, build, tiny


def laid_out(world, config):
    """Of every parameter: whether ranks agree about a sum that counts each element once, and its
    slices."""
    engine = build(config, world)
    layout = engine.zero.layout
    found = []

    for flat, _ in engine.zero.flats():
        places = torch.zeros(flat.numel())
        for segment in layout.local_segments(flat):
            segment.of(places).copy_(torch.arange(segment.start, segment.start + segment.count))
        own = [(piece.double().sum(), piece.numel()) for piece in layout.pieces([flat], [places])]
        sums = layout.whole_sums([flat], torch.tensor(own, dtype=torch.float64).view(-1, 2))
        total = dict(
            zip(
                (segment.name for segment in layout.local_segments(flat)),
                sums.tolist(),
                strict=True,
            )
        )

        for name, shape in layout.shapes(flat).items():
            size = prod(shape)
            right = total.get(name, [size * (size - 1) / 2, size]) == [size * (size - 1) / 2, size]
            by_rank = enumerate(layout.by_rank(flat))
            slices = [
                (rank, s.start, s.count)
                for rank, of_rank in by_rank
                for s in of_rank
                if s.name == name
            ]

            found.append((right, name, list(shape), slices))

    assert {name for _, name, *_ in found} == {name for name, _ in engine.model.named_parameters()}

    engine.close()
    return found


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_segments_tile_every_parameter_on_all_ranks_alike(two_ranks, stage):
    first, second = two_ranks.run(laid_out, tiny(zero__stage=stage))

    assert first == second

    for right, name, shape, slices in first:
        assert right, name
        assert tiling_problem(name, ParameterRecord(shape, "decay", [], slices)) == ""

    assert (max(len(slices) for *_, slices in first) > 1) == (stage > 0)


LEARNED = PositionConfig(kind="learned", maximum=16)


def shared_table():
    model = nn.ModuleDict(
        {
            "table": nn.Embedding(7, 4),
            "dense": nn.Linear(4, 4),
            "norm": nn.LayerNorm(4),
            "out": nn.Linear(4, 7),
        }
    )

    model["out"].weight = model["table"].weight
    model["dense"].bias.requires_grad_(False)
    return model


def test_every_trainable_parameter_once():
    model = shared_table()
    groups = parameter_groups(model, 0.1)
    named = {id(p): name for name, p in model.named_parameters()}
    found = {group["name"]: [named[id(p)] for p in group["params"]] for group in groups}

    assert found == {
        "decay": ["table.weight", "dense.weight"],
        "no_decay": ["norm.weight", "norm.bias", "out.bias"],
    }
    assert [group["weight_decay"] for group in groups] == [0.1, 0.0]


def test_factors_of_the_learning_rate_are_in_groups_of_different_names():
    class Adapted(Adapter):
        def __init__(self):
            nn.Module.__init__(self)
            self.rows = nn.ParameterList(torch.zeros(2, 3) for _ in range(3))

        def learning_rate_factors(self):
            return dict(zip(self.rows, (1.0, 8.0, 4.0), strict=True))

    groups = parameter_groups(Adapted(), 0.1)

    assert [(group["name"], group["rate"]) for group in groups] == [
        ("decay", 1.0),
        ("decay.rate_1", 4.0),
        ("decay.rate_2", 8.0),
    ]


def test_scalar_parameter_is_refused():
    model = nn.Module()
    model.scale = nn.Parameter(torch.tensor(1.0))

    with refused(r"scale has no dimension: give it the shape \[1\]"):
        parameter_groups(model, 0.0)


def test_depths_are_counted_from_the_heads():
    """Two layers, tables below them, heads and a final norm above.

    Each stack counts its own layers.
    """
    config = small_config(
        "encoder_decoder", layers=2, decoder_layers=3, final_norm=True, position=LEARNED
    )
    found = depths_below_heads(build_model(config, WORDS, {"pad": 0}))
    shortened = {re.sub(r"(layers\.\d+)\..*", r"\1", name): depth for name, depth in found.items()}

    assert shortened == {
        "family.tokens.weight": 4,
        "family.encoder.position.table.weight": 4,
        "family.encoder.layers.0": 2,
        "family.encoder.layers.1": 1,
        "family.encoder.norm.weight": 0,
        "family.decoder.position.table.weight": 4,
        "family.decoder.layers.0": 3,
        "family.decoder.layers.1": 2,
        "family.decoder.layers.2": 1,
        "family.decoder.norm.weight": 0,
    }


@contract(FAMILIES, "family")
def test_groups_by_depth_hold_every_parameter_once(family):
    model = build_model(small_config(family), WORDS, {"pad": 0}, SPELLINGS)
    groups = parameter_groups(model, 0.1, by_depth=True)
    depths = depths_below_heads(model)
    found = {
        id(p): (group["depth"], group["weight_decay"]) for group in groups for p in group["params"]
    }

    assert sum(len(group["params"]) for group in groups) == len(found)
    assert found == {
        id(p): (depths[n], 0.1 if p.ndim >= 2 else 0.0) for n, p in model.named_parameters()
    }
    assert len({group["name"] for group in groups}) == len(groups) <= 2 * (max(depths.values()) + 1)
    assert {group["depth"] for group in groups} >= {1, max(depths.values())}


@contract(FAMILIES, "family")
def test_each_parameter_is_of_one_kind(family):
    """Norms are found by the names of their classes here, tables by those of embeddings."""
    model = build_model(small_config(family), WORDS, {"pad": 0}, SPELLINGS)
    owners = {
        id(parameter): type(module).__name__
        for module in model.modules()
        for parameter in module.parameters(recurse=False)
    }
    found = {
        kind: {
            name
            for group in parameter_groups(model, 0.1, (kind,))
            for name, parameter in model.named_parameters()
            if group["weight_decay"] and any(parameter is one for one in group["params"])
        }
        for kind in ("matrices", "tables", "head", "norms", "biases")
    }
    named = dict(model.named_parameters())

    assert sum(map(len, found.values())) == len(named)
    assert set().union(*found.values()) == named.keys()
    assert found["norms"] == {name for name, p in named.items() if "Norm" in owners[id(p)]}
    assert found["tables"] >= {n for n, p in named.items() if "Embedding" in owners[id(p)]}
    assert all(name.startswith("heads.") for name in found["head"])
    assert not any(name.startswith("heads.") for name in found["matrices"])
    assert all(named[name].ndim == 1 for name in found["biases"])


def test_matrices_of_layers_may_be_apart_and_tables_never_are():
    """A table of relative positions in a layer is no matrix.

    Nor is a convolution, which has three dimensions.
    """
    position = PositionConfig(kind="t5", buckets=8, max_distance=9, per_layer=True)
    model = build_model(small_config("encoder", position=position), WORDS, {"pad": 0})
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = {
        group["name"]: group for group in parameter_groups(model, 0.1, separate_matrices=True)
    }
    found = {
        key: {named[id(parameter)] for parameter in group["params"]}
        for key, group in groups.items()
    }
    matrices = {
        n
        for n, p in model.named_parameters()
        if p.ndim == 2 and ".layers." in n and ".position." not in n
    }

    vectors = {name for name, parameter in model.named_parameters() if parameter.ndim == 1}

    assert found == {
        "matrix": matrices,
        "no_decay": vectors,
        "decay": {*named.values()} - matrices - vectors,
    }
    assert [groups[key]["weight_decay"] for key in ("matrix", "decay", "no_decay")] == [
        0.1,
        0.1,
        0.0,
    ]


def small(**changes):
    return build_model(tiny(**changes).model, VOCABULARY, {"pad": 0, "mask": 3})


def frozen_names(model):
    return {name for name, parameter in model.named_parameters() if not parameter.requires_grad}


def test_parts_by_name():
    model = small(model__type_vocab_size=2)
    everything = {name for name, _ in model.named_parameters()}

    assert freeze(model, ()) == []
    assert frozen_names(model) == set()

    (line,) = freeze(model, ("embeddings",))
    tables = {
        "family.tokens.weight",
        "family.stack.position.table.weight",
        "family.stack.embeddings.types.weight",
    }

    assert frozen_names(model) == tables

    size = sum(dict(model.named_parameters())[name].numel() for name in tables)

    assert frozen_count(model) == size
    assert line.startswith(f"frozen     3 parameters, {size:,} of ")

    freeze(model, (r"family\.stack\.layers\.0\..*",))
    first = {name for name in everything if name.startswith("family.stack.layers.0.")}

    assert frozen_names(model) == tables | first

    freeze(model, ("body",))

    assert frozen_names(model) == {name for name in everything if name.startswith("family.")}


def test_modules_that_only_compute():
    model = nn.ModuleDict(
        {
            "a": nn.Sequential(nn.Linear(2, 2), nn.Dropout()),
            "b": nn.Linear(2, 2),
            "c": nn.Dropout(),
        }
    )
    model["a"].requires_grad_(False)
    assert list(frozen_modules(model)) == [model["a"], model["a"][0]]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        (
            ("bodies",),
            r"freeze: 'bodies' matches no parameter: expected body, embeddings, or a regular "
            r"expression",
        ),
        (("family",), "matches no parameter"),
        (("(",), r"freeze: .*'\('"),
        (("body", r"heads\..*"), "leaves nothing to train"),
    ],
    ids=["near", "part-of-a-name", "broken", "all"],
)
def test_mistakes(patterns, message):
    with refused(message):
        freeze(small(), patterns)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, shards):
    """A folder with a configuration with dropout and weight decay."""
    folder = tmp_path_factory.mktemp("frozen")
    write_config(
        folder / "train.yaml",
        shards,
        folder / "first",
        data__micro_batch=4,
        steps=2,
        schedule={"name": "linear", "warmup": 1, "steps": 40},
        optimizer__weight_decay=0.1,
        model__type_vocab_size=0,
    )

    return folder


def started(ranks, folder, output, *words):
    """Run; the first run of the folder, which lends its weights, is made where it is missing."""
    if output != "first" and not (folder / "first").is_dir():
        started(ranks, folder, "first")
    source = [] if output == "first" else [f"model.init_from={folder / 'first'}", "steps=5"]
    answers = ranks.run(
        start, folder / "train.yaml", [f"output={folder / output}", *source, *words]
    )

    assert {code for code, _ in answers} == {0}, answers

    return folder / output


def weights(run):
    return StoredCheckpoint.find(run).read_weights()


@pytest.mark.parametrize("freezing", ["body", "embeddings"])
@pytest.mark.parametrize("stage", [0, 3])
def test_only_the_rest_changes(one_rank, folder, stage, freezing):
    """Byte for byte after five steps with weight decay and dropout, with no state in the
    optimizer."""
    tuned = started(
        one_rank, folder, f"{freezing}-{stage}", f"zero.stage={stage}", f"freeze={freezing}"
    )
    before = weights(folder / "first")
    after = weights(tuned)
    body = {
        one
        for one in before
        if one.startswith("family." if freezing == "body" else "family.tokens")
    }

    body |= {"family.stack.position.table.weight"}

    assert {one for one in before if torch.equal(before[one], after[one])} == body

    index = StoredCheckpoint.find(tuned).index
    reader = CheckpointReader(StoredCheckpoint.find(tuned).folder, index)
    for one in before:
        held = {WEIGHT} if one in body else {WEIGHT, "exp_avg", "exp_avg_sq"}
        assert set(index.parameters[one].keys) == held, one

    assert (
        reader.parameter(WEIGHT, "family.tokens.weight").shape
        == before["family.tokens.weight"].shape
    )


def losses(run):
    return [record["loss"] for record in steps(run)]


def test_a_frozen_body_has_no_dropout(one_rank, folder):
    """The losses are those of a body whose configuration has none.

    Without freezing they are not.
    """
    none = ["model.dropout={hidden: 0.0, attention: 0.0, embedding: 0.0}", "checkpoint.every=null"]
    strong = [
        "model.dropout={hidden: 0.5, attention: 0.1, embedding: 0.1}",
        "checkpoint.every=null",
    ]
    plain = losses(started(one_rank, folder, "plain", *none, "freeze=body"))

    assert losses(started(one_rank, folder, "still", *strong, "freeze=body")) == plain
    assert losses(started(one_rank, folder, "moving", *strong))[0] != plain[0]
