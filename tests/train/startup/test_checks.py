from dataclasses import replace
from types import SimpleNamespace

import pytest
import transformers

from clozeline.configuration.config import save_yaml, to_data, validate
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.finetuning import plan_learning_rate
from clozeline.train.startup import checks
from clozeline.train.startup.checks import drop_untrained_heads, fill_in_phases
from tests.refusals import refused
from tests.train.synthetic import plain_config, tiny


def test_keeping_the_best_needs_evaluations():
    for evaluate in ({}, {"every": 1, "max_rows": 0}):
        with refused("keep_best"):
            tiny(checkpoint={"keep_best": True}, evaluate=evaluate)


def test_shares_of_the_steps_are_those_of_the_first_start(tmp_path):
    phases = [
        {"shards": "a", "share": 0.1, "global_batch": 4},
        {"shards": "b", "share": 0.01},
    ]
    phases += [{"shards": "c", "share": 0.5, "learning_rate": 0.1}, {"shards": "d"}]
    config = tiny(
        output=str(tmp_path),
        data__shards=None,
        data__phases=phases,
        schedule={"name": "linear"},
        steps=40,
    )

    filled = fill_in_phases(config)
    # 4 steps of 4 rows, less than half a step, 20 steps of 8 rows
    ends = [(str(phase.sets[0]), phase.until_samples) for phase in filled.data.phases]

    assert ends == [("a", 16), ("c", 176), ("d", None)]
    assert [filled.data.learning_rate_at(samples) for samples in (15, 16, 175, 176)] == [
        None,
        0.1,
        0.1,
        None,
    ]
    # a run that has a checkpoint goes on
    save_yaml(to_data(filled.with_horizon(40)), tmp_path / "config.yaml")
    (tmp_path / "checkpoints" / "step-00000004").mkdir(parents=True)

    assert fill_in_phases(replace(config, steps=80)) == replace(filled, steps=80)
    assert fill_in_phases(config.with_horizon(80)).data.phases[0].until_samples == 32


@pytest.fixture(scope="module")
def published(shards, tmp_path_factory):
    """A BERT with both heads of its pretraining."""
    folder = tmp_path_factory.mktemp("published")
    size = open_shards(shards).manifest.tokenizer.vocab_size
    sizes = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }

    transformers.BertForPreTraining(
        transformers.BertConfig(vocab_size=size, **sizes)
    ).save_pretrained(folder)
    return folder


def config_of(shards, model):
    settings = plain_config(data__shards=str(shards), output="unused")
    return validate(TrainConfig, {**settings, "model": model}, "test")


def test_a_head_that_no_set_trains_is_left_out(published, shards):
    config = config_of(shards, {"init_from": str(published)})
    assert set(config.model.heads) == {"masked_lm", "sentence"}
    kept, left_out = drop_untrained_heads(config)
    assert (set(kept.model.heads), left_out) == ({"masked_lm"}, ("sentence",))
    assert drop_untrained_heads(kept) == (kept, ())


@pytest.mark.parametrize(
    "heads",
    [
        {"masked_lm": 1.0, "span_boundary": 1.0},
        {"sentence": 1.0},
    ],
)
def test_other_heads_are_the_users(published, shards, heads):
    """A head that the model does not have, or the only one, is a mistake that opening the sets
    reports."""
    config = config_of(shards, {"init_from": str(published), "heads": heads})
    assert drop_untrained_heads(config) == (config, ())


@pytest.mark.parametrize(
    ("changes", "of_task", "message"),
    [
        ({}, False, "rows of a task"),
        ({"model__init_from": None}, True, "init_from"),
        ({"optimizer": {"name": "muon", "learning_rate": "auto"}}, True, "give muon a number"),
    ],
)
def test_an_automatic_learning_rate_is_for_tasks(changes, of_task, message, monkeypatch, tmp_path):
    """It follows the width; a number stays, and a resumed run keeps the one of its first start."""
    monkeypatch.setattr(checks, "hold_labeled_rows", lambda _: of_task)
    sets = SimpleNamespace(phases=[SimpleNamespace(sources=())])
    auto = {
        "model__init_from": "body",
        "optimizer": {"name": "adamw", "learning_rate": "auto"},
        "output": str(tmp_path),
    }
    with refused(message):
        checks.fill_in_learning_rate(tiny(**auto | changes), sets)
    monkeypatch.setattr(checks, "hold_labeled_rows", lambda _: True)
    found = checks.fill_in_learning_rate(tiny(**auto), sets)

    assert found.optimizer.options.learning_rate == plan_learning_rate(20)

    given = tiny(**auto | {"optimizer": {"name": "adamw", "learning_rate": 0.25}})

    assert checks.fill_in_learning_rate(given, sets) == given

    save_yaml(to_data(given), tmp_path / "config.yaml")
    (tmp_path / "checkpoints" / "step-00000004").mkdir(parents=True)

    assert checks.fill_in_learning_rate(tiny(**auto), sets) == given
