"""Sets whose rows a model would misread are refused before the first step.

Labels of tasks come from their sets.
"""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.columns import ROW
from clozeline.configuration.config import to_data, validate
from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import RowHeadOptions
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.registries import HEADS
from clozeline.pipeline.row_form import RowForm
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.configuration.model_source import with_source
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.data.sets.model_fit import (
    fit_heads,
    refuse_unread,
    unread_lines,
    with_settings_of_sets,
)
from tests.pipeline.task_files import labeled_row, make_labeled_sets, make_sets, open_split
from tests.shard_sets import roles_of
from tests.train.masked_set import write_config
from tests.train.objective_sets import write_objective_sets
from tests.train.synthetic import tiny

ClassificationHead, RegressionHead = map(HEADS.load_class, ("classification", "regression"))
PAIRED = {"similarity": {"group_size": 2}}


def opened(folder, shards, heads, **changes):
    from clozeline.configuration.config import load_config

    changes = {
        "model__heads": heads,
        "model__position": {"maximum": 64},
        "evaluate__max_rows": 0,
        **changes,
    }
    if isinstance(shards, list):
        changes["data__weights"] = [1.0] * len(shards)
        shards = [str(path) for path in shards]

    written = write_config(
        folder / "train.yaml", folder, folder / "run", **changes | {"data__shards": shards}
    )
    return open_datasets(load_config(TrainConfig, written, []))


def test_an_order_of_prediction_needs_a_query_stream(tmp_path):
    """An encoder of one stream would see what it predicts; `data.ignore` does not help it."""
    shards = str(write_objective_sets(tmp_path, "permuted_lm", rows=8, heldout=2))

    with pytest.raises(
        ConfigurationError, match=r"prediction_order .* family encoder .* set model.family to xlnet"
    ):
        opened(tmp_path, shards, {"masked_lm": 1.0}, data__ignore=["prediction_order"])

    streams = {
        "family": "xlnet",
        "position": {"kind": "sinusoidal"},
        "bias": {"qkv": False, "out": False},
    }

    changes = {f"model__{key}": value for key, value in streams.items()}

    assert opened(tmp_path, shards, {"masked_lm": {"transform": False}}, **changes).rows > 0


@pytest.mark.parametrize(
    ("name", "heads", "ignore"),
    [
        ("replaced_token_detection", {"token": 1.0}, []),
        ("corrective_lm", {"masked_lm": 1.0, "corrective": 1.0}, ["crop_start", "crop_length"]),
    ],
)
def test_heads_that_judge_a_generator(tmp_path, name, heads, ignore):
    shards = str(write_objective_sets(tmp_path, name, rows=8, heldout=2))

    with pytest.raises(
        ConfigurationError, match=r"judges the tokens of a generator.*replacement: uniform"
    ):
        opened(tmp_path, shards, heads, data__ignore=ignore)

    assert opened(
        tmp_path,
        shards,
        {"masked_lm": 1.0},
        data__ignore=["token", "corrective", "crop_start", "crop_length"],
    )


def test_a_generator_of_the_family_s_own(tmp_path):
    """Rows for masked LM, or for a generator, are enough.

    Rows whose tokens were replaced before have none for it.
    """
    generator = {"layers": 1, "dim": 8, "attention_heads": 2, "ffn_dim": 8}
    family = {"model__family": "replaced_tokens", "model__generator": generator}
    both = {"masked_lm": 1.0, "token": 50.0}
    for name in ("masked_lm", "replaced_token_detection"):
        shards = write_objective_sets(tmp_path / name, name, rows=8, heldout=2)
        assert opened(tmp_path, str(shards), both, **family)

    with pytest.raises(
        ConfigurationError, match=r"heads.token would learn from labels that are for masked_lm"
    ):
        opened(tmp_path, str(tmp_path / "masked_lm" / "train" / "manifest.json"), both)

    drawn = write_objective_sets(
        tmp_path / "drawn", "replaced_token_detection", 8, 2, replacement="uniform"
    )

    with pytest.raises(
        ConfigurationError, match=r"heads.masked_lm would learn from labels that are for token"
    ):
        opened(tmp_path, str(drawn), both, **family)


def test_rows_made_for_another_head(tmp_path):
    masked = write_objective_sets(tmp_path / "m", "masked_lm", rows=8, heldout=2)
    replaced = write_objective_sets(
        tmp_path / "r", "replaced_token_detection", rows=8, heldout=2, replacement="uniform"
    )

    with pytest.raises(
        ConfigurationError,
        match=r"m/train.*heads.token would learn from labels that are for masked_lm",
    ):
        opened(tmp_path, [masked, replaced], {"masked_lm": 1.0, "token": 1.0})

    pairs = write_objective_sets(tmp_path / "p", "sentence_comparison", rows=8, heldout=2)
    found = opened(tmp_path, [masked, pairs], {"masked_lm": 1.0, **PAIRED})

    assert found.rows == 16


@pytest.fixture(scope="module")
def task_manifest(tmp_path_factory):
    return open_split(make_sets(tmp_path_factory.mktemp("task")), "train").manifest


def with_heads(**heads):
    return replace(tiny().model, heads=heads)


def changed(task_manifest, **facts):
    """The same set as that of another task."""
    objective = task_manifest.objective
    options = {**objective.options, "task": {**objective.options["task"], **facts}}
    return task_manifest.model_copy(
        update={"objective": objective.model_copy(update={"options": options})}
    )


def test_classes_come_from_the_set(task_manifest):
    answered = with_settings_of_sets(
        with_heads(classification={"hidden": "tanh"}), [("data.shards", task_manifest)]
    )

    assert answered.heads["classification"] == ClassificationHead.Options(
        hidden="tanh", labels=("0", "1")
    )

    again = with_settings_of_sets(
        answered, [("data.shards", task_manifest), ("data.heldout", task_manifest)]
    )

    assert again == answered

    several = with_settings_of_sets(
        with_heads(classification=1.0), [("SET", changed(task_manifest, multi_label=True))]
    )

    assert several.heads["classification"] == ClassificationHead.Options(
        labels=("0", "1"), multi_label=True
    )


def test_sets_of_two_tasks_are_refused(task_manifest):
    other = changed(task_manifest, labels=["entailment", "not_entailment"])
    with pytest.raises(ConfigurationError, match="in the order of DEV, got 0, 1"):
        with_settings_of_sets(
            with_heads(classification=1.0), [("TRAIN", task_manifest), ("DEV", other)]
        )


def test_the_range_of_numbers_comes_from_the_set(task_manifest):
    numbers = changed(task_manifest, head="regression", labels=[], low=0.0, high=5.0)

    for given, range_ in (
        (RegressionHead.Options(output="sigmoid"), (0.0, 5.0)),
        (RegressionHead.Options(output="sigmoid", range=(1.0, 4.0)), (1.0, 4.0)),
        (RegressionHead.Options(), (0.0, 1.0)),
    ):
        assert (
            with_settings_of_sets(with_heads(regression=given), [("SET", numbers)])
            .heads["regression"]
            .range
            == range_
        )


def test_numbers_are_learned_by_the_scale_of_the_training_rows(tmp_path):
    """Where the head has none yet and predicts the number itself.

    Without a bias, nothing holds the mean.
    """
    train = open_split(make_labeled_sets(tmp_path, "score: score"), "train")
    numbers = np.array([labeled_row(number)["score"] for number in range(120)], np.float32)
    given = (
        (
            RegressionHead.Options(),
            (float(numbers.mean(dtype=np.float64)), float(numbers.std(dtype=np.float64))),
        ),
        (RegressionHead.Options(target_scale=(0.0, 1.0)), (0.0, 1.0)),
        (RegressionHead.Options(output="sigmoid"), None),
        (
            RegressionHead.Options(bias=False),
            (0.0, float(np.sqrt(np.square(numbers.astype(np.float64)).mean()))),
        ),
    )
    for head, scale in given:
        found = fit_heads(with_heads(regression=head), [train]).heads["regression"].target_scale
        assert found == (scale and pytest.approx(scale))
        assert fit_heads(with_heads(regression=head), []).heads["regression"] == head


MASKED = ("input_ids", "label_positions", "label_ids")


@pytest.mark.parametrize(
    ("theirs", "key", "way_out"),
    [({"labels": ["1", "0"]}, "labels", []), ({"classes": 3}, "classes", None)],
)
def test_a_key_that_the_first_model_brings_is_named_so(
    tmp_path, task_manifest, theirs, key, way_out
):
    """It cannot be left out; what the message says to set is accepted."""
    plain = to_data(with_heads(classification=1.0))
    plain["heads"]["classification"] = theirs
    (tmp_path / "config.yaml").write_text(json.dumps({"model": plain}))
    plain = with_source({"init_from": str(tmp_path)})
    shown = rf"\.{key}={re.escape(json.dumps(way_out))} for a new head \(model\.init_from sets"

    for value in (plain["heads"]["classification"][key], way_out):
        plain["heads"]["classification"][key] = value
        with nullcontext() if value is way_out else pytest.raises(ConfigurationError, match=shown):
            with_settings_of_sets(validate(ModelConfig, plain, "model"), [("SET", task_manifest)])


def holding(*columns, heads=("masked_lm",), architecture="encoder", name="masked_lm"):
    frame = RowForm(decoder_start=0)
    facts = {"name": "toy", "head": heads[0], "labels": [], "metrics": []}
    objective = SimpleNamespace(
        architecture=architecture,
        heads=heads,
        frame=frame,
        entry=lambda: {"task": facts},
        name=name,
        label=name,
    )

    roles = {**roles_of(columns), **({"mood": ROW} if "mood" in columns else {})}
    tokenizer = SimpleNamespace(special_ids={"pad": 0, "mask": 1})
    return SimpleNamespace(objective=objective, roles=roles, tokenizer=tokenizer, name="set")


def reader(*targets, architecture="encoder", types=0, languages=0, streams=False, pool=None):
    named = {name: name for name in targets}
    family = "xlnet" if streams else "encoder"
    heads = {name: RowHeadOptions(pool=pool) for name in targets}
    return SimpleNamespace(
        targets=named,
        architecture=architecture,
        type_vocab_size=types,
        languages=languages,
        family=family,
        heads=heads,
    )


@pytest.mark.parametrize(
    ("columns", "heads", "unread"),
    [
        (
            ("segment_starts", "sentence_label"),
            ("masked_lm", "sentence"),
            ["segment_starts", "sentence_label"],
        ),
        (
            ("crop_start", "crop_length"),
            ("masked_lm", "corrective", "similarity"),
            ["crop_start", "crop_length", "corrective"],
        ),
        (("languages",), ("masked_lm",), ["languages"]),
        (("mood",), ("masked_lm",), ["mood"]),
    ],
)
def test_unread_columns_are_named(columns, heads, unread):
    found = holding(*MASKED, *columns, heads=heads)
    with pytest.raises(ConfigurationError) as caught:
        refuse_unread(found, reader("masked_lm"), ["other"], "data.shards: x")
    assert str(caught.value).endswith(f"data.ignore=[{', '.join(['other', *unread])}]")
    refuse_unread(found, reader("masked_lm"), unread, "data.shards: x")


def test_segments_of_a_task_may_stay_unread():
    """A body without segment embeddings tells two texts apart by [SEP].

    One line says so, and no key is asked for.
    """
    pair = holding("input_ids", "segment_starts", heads=("span",), name="task")
    refuse_unread(pair, reader("span"), [], "x")
    (line,) = unread_lines([pair, pair], reader("span"))

    assert "segment_starts" in line
    assert "model.type_vocab_size" in line
    assert unread_lines([pair], reader("span", types=2)) == []
    assert unread_lines([holding(*MASKED, "segment_starts")], reader("masked_lm", types=2)) == []

    with pytest.raises(ConfigurationError, match=r"data\.ignore=\[languages\]"):
        refuse_unread(
            holding("input_ids", "segment_starts", "languages", heads=("span",), name="task"),
            reader("span"),
            [],
            "x",
        )


def test_what_is_read_or_kept_for_inversion_passes():
    refuse_unread(holding(*MASKED, "segment_starts"), reader("masked_lm", types=2), [], "x")
    refuse_unread(holding(*MASKED, "segment_starts"), reader("masked_lm", streams=True), [], "x")
    pair = holding("input_ids", "segment_starts", "label", heads=("classification",))
    refuse_unread(pair, reader("classification", pool="pair"), [], "x")
    refuse_unread(
        holding("input_ids", "prediction_order"), reader("masked_lm", streams=True), [], "x"
    )
    refuse_unread(
        holding(*MASKED, "segment_starts", "languages"), reader("masked_lm", languages=2), [], "x"
    )
    pairs = holding(*MASKED, "sentence_label", heads=("masked_lm", "sentence"))
    refuse_unread(pairs, reader("masked_lm", "sentence"), [], "x")
    noise = ("input_ids", "target_ids", "span_starts", "span_lengths", "step_rotation", "task")
    denoising = holding(*noise, heads=("lm",), architecture="encoder_decoder")
    refuse_unread(denoising, reader("lm", architecture="encoder_decoder"), [], "x")
