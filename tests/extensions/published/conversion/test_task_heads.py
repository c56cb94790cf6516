"""Classes with heads of tasks, of every type that has them, in and out."""

from dataclasses import replace

import pytest
import torch
import transformers

from clozeline.errors import ConfigurationError, WeightsError
from clozeline.extensions.published.conversion.export import export_checkpoint
from clozeline.extensions.published.conversion.task_heads import endings
from clozeline.extensions.published.conversion.type_selection import load_map
from clozeline.model.build import build_model
from clozeline.model.checkpoints.checkpoint import build_checkpoint
from clozeline.model.checkpoints.published_forms import with_published_heads
from clozeline.model.checkpoints.reading import read_checkpoint
from tests.extensions.published.conversion.test_export import checkpoint_of
from tests.extensions.published.peers import (
    TYPES,
    VOCABULARY,
    edit_config,
    export_to,
    filled,
    in_and_out,
    left_rows,
    loaded,
    options,
    stored,
)
from tests.matrices import mark_slow_but
from tests.model.small_models import built
from tests.refusals import refused

LABELS = ["no", "perhaps", "yes"]
KINDS = ("classification", "tagging", "span", "multiple_choice")
CHOICES = 3
MAPS = {name: (load_map(name), *load_map(name).variants()) for name in TYPES}
CASES = [
    (name, kind)
    for name in TYPES
    for kind in KINDS
    if any(endings()[kind] in one.classes.tasks for one in MAPS[name])
]


def map_with(model_type, kind):
    """The map of the type, or of its encoder alone, that has the class."""
    return next(one for one in MAPS[model_type] if endings()[kind] in one.classes.tasks)


def task_peer(model_type, kind, seed=0, **changes):
    """A model of transformers with a head of tasks; every parameter is drawn."""
    named = {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {"no": 0, "perhaps": 1, "yes": 2},
    }
    names = named if kind in ("classification", "tagging") else {}
    settings = transformers.CONFIG_MAPPING[model_type]
    settings = settings(
        **(options(model_type, seed) | names | changes), attn_implementation="eager"
    )
    return filled(map_with(model_type, kind).classes.task_class(endings()[kind]).name, settings)


def saved(folder, model_type, kind, seed=0, **changes):
    theirs = task_peer(model_type, kind, seed, **changes)
    theirs.save_pretrained(folder)
    return theirs


def task_rows(theirs, kind):
    """The same padded rows for both sides.

    XLNet's on the left, since its class reads the last place of all.
    """
    if kind == "multiple_choice":
        return choice_rows(theirs)
    if theirs.config.model_type == "xlnet":
        return left_rows(theirs)
    draw = torch.Generator().manual_seed(5)
    lengths = torch.tensor([11, 6, 9])
    places = torch.arange(11).expand(3, 11)
    valid = places < lengths[:, None]
    pad = theirs.config.pad_token_id
    ids = torch.randint(4, VOCABULARY, (3, 11), generator=draw)
    ids[torch.arange(3), lengths - 1] = (
        theirs.config.eos_token_id if theirs.config.is_encoder_decoder else 7
    )
    ids = ids.masked_fill(~valid, pad)
    ours = {"input_ids": ids, "position_ids": places, "lengths": lengths}
    their = {"input_ids": ids, "attention_mask": valid.long()}

    if theirs.config.is_encoder_decoder and kind != "tagging":
        start = torch.full((3, 1), theirs.config.decoder_start_token_id)
        shifted = torch.cat((start, ids[:, :-1]), dim=1)
        ours |= {"decoder_input_ids": shifted, "decoder_position_ids": places}
        their |= {"decoder_input_ids": shifted}

    if getattr(theirs.config, "n_langs", 1) > 1:
        their["langs"] = ours["languages"] = torch.randint(
            0, theirs.config.n_langs, (3, 11), generator=draw
        )

    return ours, their, valid


def choice_rows(theirs):
    """Two examples of three choices, each a row; theirs have an axis for the choices."""
    ours, their, _ = task_rows(theirs, "classification")
    order = torch.tensor([0, 1, -1, -1, 0, 1])
    ours = {key: tensor[order] for key, tensor in ours.items()} | {
        "choices": torch.tensor([CHOICES, CHOICES])
    }
    return (
        ours,
        {key: tensor[order].unflatten(0, (2, CHOICES)) for key, tensor in their.items()},
        None,
    )


def difference(model, theirs, kind):
    """The largest difference of scores, at tokens or of rows.

    Of scores above 1, relative to the largest.
    """
    ours, their, valid = task_rows(theirs, kind)
    with torch.no_grad():
        (found,), output = model.logits(ours).values(), theirs(**their)
    if kind == "span":
        expected = torch.stack((output.start_logits, output.end_logits), dim=-1)
    else:
        expected = output.logits.squeeze(-1) if found.ndim == 1 else output.logits

    assert found.shape == expected.shape

    chosen = valid if found.ndim == 3 else ...
    return ((found - expected)[chosen].abs().max() / expected.abs().max().clamp(min=1)).item()


def test_every_type_has_the_classes_that_transformers_has():
    for name in TYPES:
        class_of = load_map(name).classes.prefix
        for kind in KINDS:
            exists = hasattr(transformers, f"{class_of}{endings()[kind]}")
            assert exists == ((name, kind) in CASES), f"{class_of}{endings()[kind]}"


@pytest.mark.parametrize(
    ("model_type", "kind", "seed"),
    mark_slow_but(
        [(*case, 0) for case in CASES[::2]], [(*case, seed) for case in CASES for seed in range(3)]
    ),
)
def test_scores_are_those_of_the_class_and_every_bit_comes_back(tmp_path, model_type, kind, seed):
    theirs = saved(tmp_path / "in", model_type, kind, seed)
    checkpoint, export, again = in_and_out(tmp_path, theirs)

    assert not checkpoint.notes or checkpoint.unread
    assert list(checkpoint.config.heads) == [kind]
    assert difference(build_checkpoint(checkpoint), theirs, kind) < 1e-5
    assert difference(build_checkpoint(checkpoint), again, kind) < 1e-5
    assert export.config.get("problem_type") == (
        "single_label_classification" if kind == "classification" else None
    )

    if kind in ("classification", "tagging"):
        assert checkpoint.config.heads[kind].labels == tuple(LABELS)
        assert again.config.id2label == dict(enumerate(LABELS))
        assert again.config.label2id == theirs.config.label2id


@pytest.mark.parametrize("model_type", [name for name, kind in CASES if kind == "classification"])
def test_one_label_is_a_number(tmp_path, model_type):
    theirs = saved(
        tmp_path, model_type, "classification", id2label={0: "score"}, label2id={"score": 0}
    )
    checkpoint = read_checkpoint(tmp_path)

    assert list(checkpoint.config.heads) == ["regression"]
    assert difference(build_checkpoint(checkpoint), theirs, "regression") < 1e-5

    export = export_checkpoint(checkpoint)

    assert export.config["problem_type"] == "regression"
    assert export.tensors.keys() == stored(tmp_path).keys()


@pytest.mark.parametrize("model_type", ["bert", "roberta", "modernbert", "gpt2", "llama"])
def test_the_scale_of_numbers_is_folded_into_the_class(tmp_path, model_type):
    """Classes have no such key: they predict the user's numbers, as our head does."""
    saved(tmp_path, model_type, "classification", id2label={0: "score"}, label2id={"score": 0})
    checkpoint = read_checkpoint(tmp_path)
    head = checkpoint.config.heads["regression"]
    mean = 18.0 if head.bias else 0.0
    heads = {"regression": replace(head, target_scale=(mean, 4.5))}
    plain = build_checkpoint(checkpoint)
    scaled = replace(checkpoint, config=replace(checkpoint.config, heads=heads))
    named = (
        map_with(model_type, "classification").classes.task_class("ForSequenceClassification").name
    )
    theirs, report = loaded(export_to(tmp_path / "out", export_checkpoint(scaled)), named)

    assert not report
    assert difference(build_checkpoint(scaled), theirs, "regression") < 1e-5

    rows, _, _ = task_rows(theirs, "classification")
    with torch.no_grad():
        expected = mean + 4.5 * plain.logits(rows)["regression"]
        found = build_checkpoint(scaled).logits(rows)["regression"]

    assert torch.allclose(found, expected, atol=1e-4)


READ = [
    (
        "roberta",
        "classification",
        {"problem_type": "multi_label_classification"},
        {"multi_label": True},
    ),
    ("bert", "classification", {"classifier_dropout": 0.3}, {"dropout": 0.3, "input_dropout": 0.0}),
    (
        "roberta",
        "classification",
        {"classifier_dropout": 0.3},
        {"dropout": 0.3, "input_dropout": 0.3},
    ),
    (
        "distilbert",
        "classification",
        {"seq_classif_dropout": 0.3},
        {"dropout": 0.3, "input_dropout": 0.0},
    ),
    ("deberta", "classification", {"cls_dropout": 0.3}, {"dropout": 0.3, "input_dropout": 0.0}),
    ("bart", "classification", {"classifier_dropout": 0.3}, {"dropout": 0.3, "input_dropout": 0.3}),
    (
        "albert",
        "classification",
        {"classifier_dropout_prob": 0.3},
        {"dropout": 0.3, "input_dropout": 0.0},
    ),
    ("roberta", "multiple_choice", {"classifier_dropout": 0.3}, {"dropout": None}),
    *(
        ("modernbert", "classification", {"classifier_pooling": pool}, {"pool": pool})
        for pool in ("cls", "mean")
    ),
    *(
        ("eurobert", "classification", {"classifier_pooling": theirs}, {"pool": pool})
        for theirs, pool in (("late", "late"), ("mean", "mean"), ("bos", "cls"))
    ),
    *(
        ("deberta-v2", "classification", {"pooler_hidden_act": a}, {"hidden": a})
        for a in ("gelu", "tanh", "relu")
    ),
    *(
        (
            "xlm",
            "multiple_choice",
            {"num_labels": labels, "summary_first_dropout": 0.3},
            {"hidden_dim": labels, "input_dropout": 0.3, "dropout": 0.0},
        )
        for labels in (1, 2, 5)
    ),
]


@pytest.mark.parametrize(("model_type", "kind", "keys", "head"), READ)
def test_keys_of_heads_come_in_and_go_out(tmp_path, model_type, kind, keys, head):
    """The first map of XLM's choices is as wide as there are labels."""
    theirs = saved(tmp_path, model_type, kind, **keys)
    checkpoint = read_checkpoint(tmp_path)
    own = checkpoint.config.heads[kind]

    assert {key: getattr(own, key) for key in head} == head
    assert difference(build_checkpoint(checkpoint), theirs, kind) < 1e-5

    plain = export_checkpoint(checkpoint).config
    written = {**plain, "num_labels": len(plain.get("id2label", ""))}
    if kind != "multiple_choice" or model_type == "xlm":
        assert {key: written[key] for key in keys} == keys


@pytest.mark.parametrize(
    ("model_type", "kind", "changes"),
    [
        ("electra", "multiple_choice", {"summary_activation": "tanh"}),
        ("electra", "multiple_choice", {"summary_type": "mean"}),
        ("xlnet", "multiple_choice", {"summary_type": "first"}),
        ("xlnet", "classification", {"summary_activation": "gelu"}),
        ("xlm", "multiple_choice", {"summary_activation": "tanh"}),
        ("xlm", "classification", {"summary_type": "last"}),
    ],
)
def test_other_summaries_are_refused(tmp_path, model_type, kind, changes):
    saved(tmp_path, model_type, kind, **changes)
    with refused(f"{min(changes)}: expected .*, got {min(changes.values())!r}"):
        read_checkpoint(tmp_path)


@pytest.mark.parametrize("model_type", ["t5", "mt5"])
def test_the_body_of_a_tagger_with_the_distances_of_t5(tmp_path, model_type):
    theirs = saved(tmp_path / "in", model_type, "tagging")
    checkpoint = read_checkpoint(tmp_path / "in")
    body = export_checkpoint(checkpoint, body_alone=True)
    encoder, report = loaded(export_to(tmp_path / "body", body), body.loader)

    assert (type(encoder).__name__, report) == (f"{model_type.upper()}EncoderModel", {})

    ours, their, valid = task_rows(theirs, "tagging")
    with torch.no_grad():
        states = build_checkpoint(checkpoint).family(ours)
        expected = encoder(**their).last_hidden_state

    assert (states - expected)[valid].abs().max() < 1e-5


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        (
            "classification",
            {"id2label": {"0": "a", "2": "b"}},
            "id2label: expected names of the numbers 0, 1, 2",
        ),
        (
            "classification",
            {"problem_type": "regression"},
            "regression of 3 numbers at once is not supported",
        ),
        (
            "span",
            {"id2label": {"0": "a", "1": "b", "2": "c"}},
            "2 labels, first and last position, got 3",
        ),
        (
            "tagging",
            {"id2label": {"0": "a", "1": "b"}, "label2id": None},
            r"weight: expected \[2, \d+\], got \[3, \d+\]",
        ),
    ],
)
def test_labels_that_are_not_built_are_refused(tmp_path, kind, changes, message):
    saved(tmp_path, "bert", kind)
    edit_config(tmp_path, **changes)
    with pytest.raises((ConfigurationError, WeightsError), match=message):
        read_checkpoint(tmp_path)
    saved(tmp_path, "eurobert", "classification")
    edit_config(tmp_path, classifier_pooling="max")

    with refused("classifier_pooling: expected one of late, mean, bos, got 'max'"):
        read_checkpoint(tmp_path)


def test_a_reverse_that_is_none_is_said(tmp_path):
    saved(tmp_path, "bert", "tagging")
    edit_config(tmp_path, label2id={"no": 2, "perhaps": 1, "yes": 0}, colour="red")
    unread = "keys of config.json that were not read: colour"

    assert read_checkpoint(tmp_path).notes == (
        unread,
        "label2id of config.json was not read: it is not the reverse of id2label",
    )


@pytest.mark.parametrize(
    ("head", "key"),
    [
        ({"hidden": "tanh", "pool": "mean"}, "pool"),
        ({"hidden": "tanh", "bias": False}, "bias"),
        ({}, "hidden"),
    ],
)
def test_a_head_that_computes_something_else_is_refused(tmp_path, head, key):
    model = built("encoder", eps=1e-12, heads={"classification": {"classes": 3, **head}})
    with refused(rf"classification\.{key}: expected .* in a model of type bert"):
        export_checkpoint(replace(checkpoint_of(model), model_type="bert"))


@pytest.mark.parametrize("pool", ["max", "last", "pair", "late"])
def test_a_pool_that_modernberts_class_has_not_is_refused(tmp_path, pool):
    saved(tmp_path, "modernbert", "classification")
    checkpoint = read_checkpoint(tmp_path)
    heads = {"classification": replace(checkpoint.config.heads["classification"], pool=pool)}

    with refused(f'classification.pool: expected "cls" .*, got "{pool}"'):
        export_checkpoint(replace(checkpoint, config=replace(checkpoint.config, heads=heads)))


def test_the_type_follows_from_the_head():
    found = {}

    for hidden in ("tanh", "gelu"):
        model = built(
            "encoder", eps=1e-12, heads={"classification": {"classes": 3, "hidden": hidden}}
        )
        found[hidden] = export_checkpoint(checkpoint_of(model)).config["architectures"]

    assert found == {
        "tanh": ["BertForSequenceClassification"],
        "gelu": ["ElectraForSequenceClassification"],
    }


@pytest.mark.parametrize(
    ("name", "kind"),
    mark_slow_but([case for case in CASES if "classification" in case][::2], CASES),
)
def test_a_new_head_built_like_the_class_of_its_body_is_exported(tmp_path, name, kind):
    """A body of each type, a head that nobody described, a folder that transformers loads with the
    same scores."""
    saved(tmp_path / "theirs", name, kind)
    source = read_checkpoint(tmp_path / "theirs")
    (task,) = source.config.heads
    classes = {"labels": LABELS} if kind in ("classification", "tagging") else {}
    pool = {} if (kept := source.config.heads[task].pool) is None else {"pool": kept}
    new = {"hidden": "auto", **pool, **classes}
    config = with_published_heads(replace(source.config, heads={task: new}), source.token_ids)
    model = build_model(config, source.vocab_size, source.token_ids, seed=1).eval()
    # MobileBERT's class reads the padding next to a token
    model.family.tokens.weight.data[source.token_ids["pad_token_id"]] = 0
    export = export_checkpoint(checkpoint_of(model, token_ids=source.token_ids))
    theirs, remarks = loaded(
        export_to(tmp_path / "ours", export), export.config["architectures"][0]
    )

    assert remarks == {}
    assert difference(model, theirs, kind) < 1e-5


def test_a_head_on_a_body_of_no_class_is_berts_pooler():
    config = replace(
        built("encoder", head_dim=4).config, heads={"classification": {"hidden": "auto"}}
    )
    assert with_published_heads(config, {}).heads["classification"].hidden == "tanh"
