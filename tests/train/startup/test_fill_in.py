from dataclasses import replace
from types import SimpleNamespace

import pytest
import transformers

from clozeline.configuration.config import save_yaml, to_data, validate
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.finetuning import plan_learning_rate
from clozeline.train.startup import fill_in as rules
from clozeline.train.startup.fill_in import with_key
from tests.refusals import refused
from tests.train.starts import filled
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

    first = filled(config)
    # 4 steps of 4 rows, less than half a step, 20 steps of 8 rows
    ends = [(str(phase.sets[0]), phase.until_samples) for phase in first.data.phases]

    assert ends == [("a", 16), ("c", 176), ("d", None)]
    assert [first.data.learning_rate_at(samples) for samples in (15, 16, 175, 176)] == [
        None,
        0.1,
        0.1,
        None,
    ]
    # a run that has a checkpoint goes on
    save_yaml(to_data(with_key(first, "schedule.options.steps", 40)), tmp_path / "config.yaml")
    (tmp_path / "checkpoints" / "step-00000004").mkdir(parents=True)

    assert filled(replace(config, steps=80)) == replace(first, steps=80)
    longer = with_key(config, "schedule.options.steps", 80)
    assert filled(longer).data.phases[0].until_samples == 32


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
    kept = filled(config)
    assert set(kept.model.heads) == {"masked_lm"}
    assert filled(kept) == kept


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
    assert filled(config).model == config.model


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
    monkeypatch.setattr(rules, "hold_labeled_rows", lambda _: of_task)
    tokenizer = SimpleNamespace(special_ids={})
    train = SimpleNamespace(manifest=SimpleNamespace(tokenizer=tokenizer))
    sets = SimpleNamespace(phases=[SimpleNamespace(sources=())], heldout={}, train=train)
    auto = {
        "model__init_from": "body",
        "optimizer": {"name": "adamw", "learning_rate": "auto"},
        "schedule": {"name": "linear", "steps": 4},
        "output": str(tmp_path),
    }

    def chosen(**changes):
        return filled(tiny(**auto | changes), datasets=sets)

    with refused(message):
        chosen(**changes)
    monkeypatch.setattr(rules, "hold_labeled_rows", lambda _: True)

    assert chosen().optimizer.options.learning_rate == plan_learning_rate(20)

    given = {"optimizer": {"name": "adamw", "learning_rate": 0.25}}

    assert chosen(**given) == tiny(**auto | given)

    save_yaml(to_data(tiny(**auto | given)), tmp_path / "config.yaml")
    (tmp_path / "checkpoints" / "step-00000004").mkdir(parents=True)

    assert chosen() == tiny(**auto | given)


def test_a_rule_that_fails_names_its_key(monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("division by zero")

    config = tiny(steps="auto")
    monkeypatch.setattr(rules, "plan_steps", fail)
    with refused("^steps: no value follows from the rows of the sets: ZeroDivisionError"):
        filled(config, datasets=SimpleNamespace(phases=(), heldout={}))
