"""Weights that a model begins with: all of the body, or a message."""

from dataclasses import replace

import pytest
import torch
import transformers

from clozeline import plugins
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.model.build import build_model
from clozeline.model.checkpoints.reading import read_checkpoint
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.position import PositionConfig
from clozeline.model.families.encoder import Encoder
from clozeline.model.registries import ADAPTERS
from clozeline.train.checkpoint.stored_checkpoint import Index, steps_in
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.initial_weights import (
    OtherTokenizer,
    load_initial,
    translate,
    translate_source,
)
from tests.extensions.published.peers import VOCABULARY, saved
from tests.refusals import refused
from tests.train.masked_set import write_config
from tests.train.runs import complete, start

IDS = torch.tensor([[5, 9, 30, 7, 11]])


def fill_from(model, source, **options):
    return load_initial(model, translate_source(model.config, TrainedModel.open(source)), **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model as transformers saves it."""
    path = tmp_path_factory.mktemp("bert")
    saved(path, "bert", hidden_act="gelu")
    return path


def fresh(folder, vocabulary=VOCABULARY, **changes):
    config = replace(read_checkpoint(folder).config, **changes)
    torch.manual_seed(2)
    return build_model(config, vocabulary, {"pad": 0})


def message(model, folder):
    with pytest.raises((ConfigurationError, ClozelineError)) as caught:
        fill_from(model, folder)
    return str(caught.value)


def test_every_parameter_is_the_sources(folder):
    model = fresh(folder)
    source = read_checkpoint(folder)
    filled = fill_from(model, folder)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, source.tensors[name]), name

    assert (filled.fresh, filled.unused) == ([], [])
    assert filled.lines()[0].startswith(f"weights    {len(source.tensors)} tensors (")
    assert f" {sum(each.numel() for each in model.parameters()):,} " in filled.lines()[0].replace(
        "(", " "
    )


@pytest.mark.parametrize(
    ("key", "value"), [("eps", 1e-3), ("norm_place", "pre"), ("type_vocab_size", 5)]
)
def test_another_body_is_refused(folder, key, value):
    said = message(fresh(folder, **{key: value}), folder)
    assert f"is another model: model.{key}: {value} here" in said


def test_a_body_with_other_parameters_is_refused(folder):
    model = fresh(folder)
    source = translate_source(model.config, TrainedModel.open(folder))
    name = next(name for name in source.tensors if name.startswith("family.stack.layers.0."))
    lacking = {key: tensor for key, tensor in source.tensors.items() if key != name}
    for tensors in (lacking, {**source.tensors, "family.stack.other": torch.ones(1)}):
        with refused("only one of both models has family"):
            load_initial(model, replace(source, tensors=tensors))

    matrix = next(
        key
        for key in lacking
        if key.startswith("family.stack.layers.0.") and lacking[key].dim() == 2
    )
    for other in (source.tensors[matrix][:-1], source.tensors[matrix][:, :-1]):
        with refused(f"{matrix} has shape"):
            load_initial(model, replace(source, tensors={**source.tensors, matrix: other}))


def test_the_vocabulary_may_be_padded_on_either_side(folder):
    model = fresh(folder, vocab_multiple=64)
    padding = model.family.tokens.weight[VOCABULARY:].clone()
    fill_from(model, folder)
    source = read_checkpoint(folder).tensors["family.tokens.weight"]

    assert torch.equal(model.family.tokens.weight[:VOCABULARY], source)
    assert torch.equal(model.family.tokens.weight[VOCABULARY:], padding)


def test_padding_that_would_fit_is_named(folder, tmp_path):
    saved(tmp_path, "bert", vocab_size=64)
    assert "make the shards with the tokenizer of that model" in message(fresh(folder, 29), folder)
    said = message(fresh(tmp_path, 50), tmp_path)
    assert "set model.vocab_multiple=16, which pads this vocabulary to " in said
    fill_from(fresh(tmp_path, 50, vocab_multiple=16), tmp_path)


def heldout_loss(output):
    (folder,) = steps_in(output / "checkpoints")[-1:]
    return float(Index.read(folder).state["heldout_loss"])


def test_a_run_begins_where_another_ended(tmp_path, one_rank, shards):
    """With a rate of almost 0, the held-out loss stays that of the first run.

    A run that resumes does not need its source, and takes no other one that is missing.
    """
    first = tmp_path / "first"
    second = tmp_path / "second"
    config = write_config(tmp_path / "a.yaml", shards, first)
    one_rank.run(start, config, [f"output={first}", "steps=6"])
    words = [f"output={second}", "zero.stage=3", "optimizer.learning_rate=1e-12"]

    loss = heldout_loss(first)

    for steps in (1, 2):
        complete(one_rank, config, [*words, f"steps={steps}", f"model.init_from={first}"])
        assert heldout_loss(second) == pytest.approx(loss, rel=1e-6)
        if steps == 1:
            first.rename(tmp_path / "moved")

    ((code, message),) = one_rank.run(start, config, [*words, "model.init_from=nowhere"])

    assert (code, "model.init_from: nowhere" in message) == (64, True)


def test_further_ids_begin_near_their_parts(folder):
    """The source's last two rows are padding and belong to no id: none of them is taken, nor
    counted in a mean."""
    known = VOCABULARY - 2
    parts = {
        known: (5, 7),
        known + 1: (3,),
        known + 2: (),
        known + 3: (5, 7),
    }
    model = fresh(folder, known + len(parts))
    source = read_checkpoint(folder).tensors
    filled = fill_from(model, folder, other=OtherTokenizer(known, known + len(parts), parts))

    assert filled.added == range(known, known + 4)

    heads = {name for name in source if name.startswith("heads.") and ".projection." in name}
    for name in {"family.tokens.weight", *heads} & dict(model.named_parameters()).keys():
        row = model.get_parameter(name).detach()
        theirs = source[name]

        assert torch.equal(row[:known], theirs[:known]), name

        for token, ids in parts.items():
            mean = theirs[list(ids)].mean(0) if ids else theirs[:known].mean(0)
            assert ((row[token] - mean).abs() <= 0.1 * theirs[:known].std(0) + 1e-6).all(), name

        assert theirs.dim() == 1 or not torch.equal(row[known], row[known + 3]), (
            "two ids of equal parts differ"
        )

    old = fresh(folder)
    fill_from(old, folder)
    ids = torch.arange(1, 9)[None]
    text = {
        "input_ids": ids,
        "position_ids": torch.arange(8)[None],
        "lengths": torch.tensor(8),
    }
    before, after = (one.eval().logits(text)["masked_lm"][..., :known] for one in (old, model))

    assert torch.allclose(before, after, atol=1e-6), "text of old ids has the old scores"


def test_a_head_for_other_classes_is_new(folder):
    """As many classes with other names: the rows of the old head mean something else."""

    def of(*labels):
        return fresh(folder, heads={"classification": {"labels": labels}})

    source = folder.parent / "tuned"
    tuned = of("no", "yes")
    names = {name: tensor.detach().clone() for name, tensor in tuned.named_parameters()}
    checkpoint = replace(read_checkpoint(folder), config=tuned.config, tensors=names)
    same, other = (
        load_initial(model, translate_source(model.config, TrainedModel(source, checkpoint)))
        for model in (of("no", "yes"), of("dull", "fine"))
    )

    assert (same.fresh, same.unused) == ([], [])

    heads = sorted(name for name in names if name.startswith("heads.classification."))

    assert sorted(other.fresh) == sorted(other.unused) == heads != []


@pytest.mark.parametrize(
    "parts",
    [("embeddings",), ("none",), (r"family\.stack\.layers\.0\..*",)],
    ids=["embeddings", "none", "layer"],
)
def test_parts_of_the_source(folder, parts):
    """Copied are the named parameters, byte for byte; all others keep their initial values."""
    begins = {
        "embeddings": ("family.tokens.", "family.stack.embeddings.", "family.stack.position."),
        "none": (),
    }
    expected = begins.get(parts[0], ("family.stack.layers.0.",))
    model = fresh(folder)
    untouched = fresh(folder)
    source = read_checkpoint(folder).tensors
    filled = fill_from(model, folder, parts=parts)
    before = dict(untouched.named_parameters())

    assert set(filled.copied) == {name for name in before if name.startswith(expected)}

    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, (source if name in filled.copied else before)[name]), name

    assert "tensors of the body" in filled.lines()[1]


def tensors(**more):
    length = IDS.shape[1]
    return {
        "input_ids": IDS,
        "position_ids": torch.arange(length)[None],
        "lengths": torch.tensor([length]),
        **more,
    }


def built(folder, **changes):
    torch.manual_seed(2)
    return build_model(
        replace(read_checkpoint(folder).config, **changes), VOCABULARY, {"pad": 0}
    ).eval()


def weights(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def test_an_encoder_becomes_both_stacks(tmp_path):
    """The states of the encoder are those of transformers' BERT.

    A shorter decoder has its first layers.
    """
    saved(tmp_path, "bert", num_hidden_layers=3)
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, decoder_layers=2)
    before = weights(model)
    filled = fill_from(model, tmp_path)
    with torch.no_grad():
        found = model.family.layer_states(tensors())[-1]
        expected = transformers.BertModel.from_pretrained(tmp_path).eval()(IDS).last_hidden_state

    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)

    after = weights(model)
    source = read_checkpoint(tmp_path).tensors

    for name, value in after.items():
        taken = name.replace(".encoder.", ".stack.").replace(".decoder.", ".stack.")
        if ".cross." in name:
            assert name in filled.fresh
            assert torch.equal(value, before[name])
        elif name.startswith("family."):
            assert torch.equal(value, source[taken]), name

    assert any(".cross." in name for name in after)
    assert not [
        name for name in filled.fresh if ".cross." not in name and name.startswith("family.")
    ]


def test_an_encoder_decoder_gives_its_encoder(tmp_path):
    saved(tmp_path, "bart")
    model = built(
        tmp_path,
        family="encoder",
        heads={"classification": {"classes": 2}},
        decoder_layers=None,
        decoder_attention_heads=None,
        decoder_ffn_dim=None,
    )

    filled = fill_from(model, tmp_path)

    with torch.no_grad():
        expected = (
            transformers.BartModel.from_pretrained(tmp_path).eval().encoder(IDS).last_hidden_state
        )
        torch.testing.assert_close(model.family(tensors()), expected, atol=1e-5, rtol=0)

    assert any(name.startswith("family.decoder.") for name in filled.unused)
    assert all(name.startswith("heads.") for name in filled.fresh)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_place": "pre"}, "model.norm_place: pre here, post there"),
        (
            {"adapter": ADAPTERS.resolve("lora")},
            "expected a source of the family encoder_decoder, got encoder",
        ),
    ],
)
def test_refusals(tmp_path, changes, message):
    saved(tmp_path, "bert", num_hidden_layers=2)
    model = built(tmp_path, family="encoder_decoder", heads={"lm": 1.0}, **changes)
    with pytest.raises((ConfigurationError, ClozelineError), match=message):
        fill_from(model, tmp_path)


class Own(Encoder):
    """An encoder by another name."""


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("family", ["encoder", f"{__name__}:Own"])
def test_a_table_of_distances_does_not_change_its_direction(family, per_layer):
    plugins.allow(family)
    sizes = {
        "dim": 8,
        "layers": 1,
        "attention_heads": 2,
        "ffn_dim": 8,
        "heads": {"lm": 1.0},
    }
    config = ModelConfig(
        family="decoder", position=PositionConfig(kind="t5", per_layer=per_layer), **sizes
    )
    part = "layers.0.position." if per_layer else "position."
    names = (f"family.stack.{part}table.weight", "family.stack.norm.weight")
    found = translate(replace(config, family=family), config, dict.fromkeys(names, torch.zeros(1)))

    assert found.dropped == {names[0]}
    assert found.lacking == (f"family.stack.{part}",)
