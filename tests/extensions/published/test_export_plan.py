"""What an export will write is known from the configuration: its class, or the keys that leave it
without one."""

import re
from dataclasses import replace

import pytest
import torch
import yaml

from clozeline.configuration.config import load_config, validate
from clozeline.extensions.published.conversion.export import (
    export_checkpoint,
    model_without_weights,
    split_models,
)
from clozeline.extensions.published.export_plan import plan_export
from clozeline.files import publish_json
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import Checkpoint, build_checkpoint
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from clozeline.tools.start.project.templates import MODELS, train_yaml
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.announcements import dry_run
from tests.extensions.published.peers import export_to, loaded
from tests.model.small_models import small_config
from tests.recipes import trainings
from tests.train.masked_set import write_config

IDS = {
    "pad_token_id": 0,
    "unk_token_id": 1,
    "cls_token_id": 2,
    "sep_token_id": 3,
    "mask_token_id": 4,
}
IDS |= {"bos_token_id": 5, "eos_token_id": 6}
VOCABULARY = 60
SMALLER = {"decoder_layers": 2, "ffn_dim": 24, "decoder_ffn_dim": 24}


def plans(config, **ids):
    return plan_export(model_without_weights(config, VOCABULARY, {**IDS, **ids})).models


def model_of(keys):
    return validate(ModelConfig, keys, "model")


def narrow(config):
    """The same model of two layers, and of half a dozen features a head."""
    changes = {key: size for key, size in SMALLER.items() if getattr(config, key) is not None}
    return replace(config, layers=2, vocab_multiple=1, **changes)


def exported(config, ids, folder, noise=0.05):
    """The models of transformers that read the exports of a model with drawn weights, and those
    models."""
    model = build_model(config, VOCABULARY, {}, seed=3)
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * noise)

    tensors = {name: parameter.detach() for name, parameter in model.named_parameters()}
    whole = Checkpoint(config, VOCABULARY, tensors, ids, None, ())
    for name, part in split_models(whole).items():
        export = export_checkpoint(part)
        theirs, remarks = loaded(export_to(folder / (name or "one"), export), export.loader)
        yield name, export, theirs, remarks, build_checkpoint(part)


def outputs_apart(ours, theirs):
    """The largest difference of the scores of a row of six tokens."""
    ids = torch.tensor([[2, 9, 30, 11, 8, 4]])
    batch = {
        "input_ids": ids,
        "position_ids": torch.arange(6)[None],
        "lengths": torch.tensor([6]),
    }
    more = {}
    if theirs.config.is_encoder_decoder:
        batch |= {"decoder_input_ids": ids, "decoder_position_ids": torch.arange(6)[None]}
        more = {"decoder_input_ids": ids}

    with torch.no_grad():
        found = next(iter(ours.logits(batch).values()))
        expected = next(
            value for key, value in theirs(input_ids=ids, **more).items() if key.endswith("logits")
        )

    return (found - expected.view_as(found)).abs().max().item()


NONE = {"awd_lstm": "model.family", "elmo": "model.family", "t5_base_shared": "model.share.stacks"}
NONE |= {
    "nanogpt": "model.bias.norm",
    "neobert": "model.heads.masked_lm.bias",
    "mosaicbert": "model.gated",
}
"""Sizes and published trainings without a class, and the key of the reason."""


@pytest.mark.parametrize("size", all_sizes())
def test_every_size_has_a_class_or_a_key(size):
    for plan in plans(model_of(read_size(size))):
        assert bool(plan.architecture) == (size not in NONE)
        assert NONE.get(size, "") in plan.refusal


@pytest.mark.parametrize("model", MODELS)
def test_every_template_has_a_class_or_a_key(model, tmp_path):
    keys = yaml.safe_load(train_yaml(tmp_path, "en", model, "packed"))["model"]
    if "size" in keys:
        keys = {**read_size(keys.pop("size")), **keys}
    for plan in plans(model_of(keys)):
        assert bool(plan.architecture) == (model not in NONE)
        assert NONE.get(model, "") in plan.refusal
        # ELECTRA's body is ModernBERT's, which has no class with a score of each token's origin
        assert ("token" in plan.lacks) == (plan.part == "discriminator")


REFUSED = {
    "deberta": ("model.position.disentangled.mask_decoder", {"parts=encoder": "DebertaModel"}),
    "spanbert": (
        "model.heads",
        {"head=masked_lm": "DistilBertForMaskedLM", "parts=encoder": "DistilBertModel"},
    ),
    "coco_lm": ("model.position.kind: expected learned", {}),
    "elmo": ("model.family", {}),
    "ulmfit": ("model.family", {}),
}
"""Recipes that keep something that no class of transformers has, and what is left of them."""


@pytest.mark.parametrize(
    "training", [one for one in trainings() if "family" in one.keys.get("model", {})], ids=str
)
def test_every_recipe_has_a_class_or_says_what_to_change(training):
    config = training.keys["model"]
    if "classification" in config["heads"]:
        config["heads"]["classification"] = {"classes": 2}
    for plan in plans(model_of(config)):
        if plan.architecture:
            continue
        assert "model." in plan.refusal
        assert plan.others or "expected" in plan.refusal

    if training.recipe in REFUSED and training.variant is None:
        key, others = REFUSED[training.recipe]
        assert key in plan.refusal
        assert plan.others == others


def test_learned_positions_of_an_encoder_decoder_are_no_waves():
    """A plan has no values that could be compared with waves."""
    sizes = {"dim": 16, "layers": 2, "attention_heads": 2, "ffn_dim": 32}
    keys = {"family": "encoder_decoder", "position": {"maximum": 64}, "heads": {"lm": 1.0}}
    [plan] = plans(model_of({**sizes, **keys}))

    assert plan.architecture or "model." in plan.refusal


ENCODER = {"type_vocab_size": 2, "eps": 1e-12}
KEYS = [
    (small_config("encoder", **ENCODER), {"norm_place": "pre"}),
    (small_config("decoder"), {"norm_place": "post"}),
]


@pytest.mark.parametrize(("config", "changes"), KEYS)
def test_the_value_that_is_named_makes_it_exportable(config, changes):
    [fits] = plans(config)
    [plan] = plans(replace(config, **changes))
    (key,) = changes

    assert fits.architecture
    assert not plan.architecture

    named = re.search(
        rf"model\.{key}: expected (\w+)(?: or \w+)*, got {changes[key]}", plan.refusal
    )
    [again] = plans(replace(config, **changes | {key: named[1]}))

    assert again.architecture


@pytest.mark.parametrize(("offset", "pad"), [(2, 0), (2, 1), (2, 3), (1, 0), (0, 5), (7, 0)])
def test_positions_begin_where_the_class_begins(offset, pad, tmp_path):
    """Rows before the first position, which no token reads, are left out or added."""
    position = {"kind": "learned", "maximum": 20, "offset": offset}
    config = replace(small_config("encoder", **ENCODER), **model_of_position(position))
    ids = {**IDS, "pad_token_id": pad}
    [(_, export, theirs, remarks, ours)] = exported(config, ids, tmp_path)

    assert not remarks
    assert outputs_apart(ours, theirs) < 1e-5
    assert plans(config, pad_token_id=pad)[0].architecture == export.config["architectures"][0]


def model_of_position(keys):
    return {"position": type(small_config("encoder").position)(**keys)}


@pytest.mark.parametrize(
    "model", ["roberta", "albert", "deberta_v3", "mobilebert", "mass", "unilm", "xlnet"]
)
def test_what_a_template_starts_is_loaded(model, tmp_path):
    keys = yaml.safe_load(train_yaml(tmp_path, "en", model, "packed"))["model"]
    config = narrow(model_of(keys))
    expected = {plan.part: plan.architecture for plan in plans(config)}

    for name, export, theirs, remarks, ours in exported(config, IDS, tmp_path):
        assert export.config["architectures"] == [type(theirs).__name__] == [expected.pop(name)]
        assert not remarks
        assert outputs_apart(ours, theirs) < 1e-4

    assert not expected


def test_an_adapter_that_no_weight_can_hold_is_told():
    adapted = replace(small_config("encoder", **ENCODER), adapter=adapter_of("prefix"))
    with pytest.raises(Exception, match="cannot be merged"):
        model_without_weights(adapted, VOCABULARY, IDS)
    merged = replace(adapted, adapter=adapter_of("lora"))
    assert plans(merged)[0].architecture == "BertForMaskedLM"


def adapter_of(name):
    keys = {
        "family": "encoder",
        "dim": 8,
        "layers": 1,
        "attention_heads": 1,
        "ffn_dim": 8,
        "heads": {"masked_lm": 1.0},
    }

    return model_of({**keys, "adapter": {"name": name}}).adapter


BERT = ["norm_place=post", "final_norm=false", "emb_norm=true", "activation=gelu", "eps=1e-12"]


def told(folder, shards, capsys, *keys):
    config = write_config(folder / "a.yaml", shards, folder / "run", steps=2, schedule__steps=2)
    assert (
        dry_run(load_config(TrainConfig, config, [f"model.{key}" for key in (*BERT, *keys)])) == 0
    )
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        (["position={maximum: 16}"], "export as DistilBertForMaskedLM of transformers"),
        (["position={maximum: 16, offset: 2}"], "export as RobertaForMaskedLM of transformers"),
        (
            ["position={kind: rope}"],
            "export not possible: .* model.position.kind: expected learned, got rope",
        ),
        (["norm_place=pre"], "export not possible: .* model.norm_place: expected post, got pre"),
    ],
)
def test_a_dry_run_says_as_what_a_run_is_exported(tmp_path, shards, capsys, keys, line):
    assert re.search(line, told(tmp_path, shards, capsys, *keys))


def test_a_damaged_source_stops_no_training(tmp_path, shards, capsys):
    """What an export would say of it is a line of the start."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/published.json").write_text("{")
    publish_json(tmp_path / "run/sets.json", {"checksum": ""})
    assert "export " in told(tmp_path, shards, capsys, "position={maximum: 16}")
