from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.configuration.config import load_config, to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.config import TrainConfig, check_world, frozen
from tests.model.configuration.test_model_config import FAMILY
from tests.temporary_module import temporary_module
from tests.train.masked_set import write_config
from tests.train.synthetic import plain_config, tiny


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data__lanes": 3}, "data: data.lanes: expected a divisor of data.global_batch 8, got 3"),
        ({"data__micro_batch": 3}, "data.micro_batch: expected a divisor of data.global_batch 8, got 3"),
        ({"precision": "bf16", "zero__stage": 0}, "precision: bf16 needs zero.stage 1, 2 or 3, got 0"),
        ({"precision": "fp16"}, "precision: expected 'auto', 'fp32' or 'bf16', got 'fp16'"),
        ({"zero__stage": 4}, "zero.stage: expected 0, 1, 2 or 3, got 4"),
        ({"zero__ofload": "none"}, "unknown key 'zero.ofload'; did you mean 'zero.offload'?"),
        ({"optimizer__name": "adam"}, "did you mean 'adamw'?"),
        ({"optimizer__beta": 0.9}, "unknown key 'beta'; did you mean 'betas'?"),
        ({"schedule__name": "lienar"}, "did you mean 'linear'?"),
        ({"schedule__warmup": -1}, "warmup"),
        ({"checkpoint__evry": 3}, "unknown key 'checkpoint.evry'; did you mean 'checkpoint.every'?"),
        ({"steps": "many"}, "steps: "),
        ({"gradient_clipping": -1.0}, "gradient_clipping: "),
        ({"resume": "perhaps"}, "resume: expected 'auto', 'never' or 'must', got 'perhaps'"),
        ({"optimizer": {"name": "nt_asgd"}}, "evaluate: nt_asgd follows the held-out loss: set evaluate.every"),
        (
            {"optimizer": {"name": "nt_asgd"}, "evaluate": {"every": 5, "max_rows": 0}},
            "evaluate: nt_asgd follows the held-out loss: set evaluate.every",
        ),
        ({"model__heads": {}}, "heads: expected at least one"),
        (
            {"model__heads": {"similarity": {"group_size": 4}}},
            "group_size: expected a divisor of data.micro_batch 2, got 4",
        ),
        (
            {"model__heads": {"similarity": {"group_size": 2}}, "data__length_buckets": True},
            "data.length_buckets: changes",
        ),
    ],
)
def test_mistakes_are_named(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, plain_config(**change), "train.yaml")
    assert message.removeprefix("data: ") in str(caught.value)
    assert caught.value.exit_code == 64


def test_milestones_are_tokens() -> None:
    config = tiny(checkpoint__at=["10M tokens", "2.5k words", "7 tokens"], checkpoint__tokens_per_word=1.5)
    assert config.checkpoint.milestones == [7.0, 3750.0, 10e6]
    assert tiny().checkpoint.milestones == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"checkpoint__at": ["10 steps"]}, "expected entries such as 10M tokens or 1M words, got '10 steps'"),
        ({"checkpoint__at": ["1M words"]}, "needs checkpoint.tokens_per_word"),
        ({"early_stop": {"metric": "heldout/loss"}}, "early_stop: set evaluate.every"),
        (
            {"early_stop": {"metric": "a/loss"}, "evaluate": {"every": 2, "max_rows": 0}},
            "early_stop: set evaluate.every",
        ),
    ],
)
def test_when_to_save_and_to_end_is_checked(change: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tiny(**change)


def test_world_that_divides_nothing() -> None:
    config = tiny(data__global_batch=12, data__micro_batch=2, data__lanes=4)
    assert [check_world(config, size) for size in (1, 2)] == [6, 3]
    with pytest.raises(ConfigurationError, match=r"4 lanes cannot be shared by 3 ranks; start with 1, 2, 4 ranks"):
        check_world(config, 3)
    with pytest.raises(ConfigurationError, match=r"divides data.global_batch 12, which must be one too"):
        check_world(config, 5)
    with pytest.raises(ConfigurationError, match=r"3 a rank, which micro-batches of 2 do not divide; allowed: 1, 3"):
        check_world(config, 4)


def test_a_family_s_own_keys_are_set_frozen_and_written(tmp_path: Path) -> None:
    with temporary_module("clozeline.model.families", "with_options", FAMILY, tmp_path):
        path = write_config(tmp_path / "c.yaml", tmp_path, tmp_path, model__family="with_options", model__sizes=[3])
        config = load_config(TrainConfig, path, ["model.sizes=[4, 5]"])
        assert to_plain(config)["model"]["sizes"] == [4, 5]
        assert frozen(config)["model.sizes"] == [4, 5]
        with pytest.raises(ConfigurationError, match=r"c.yaml: model.sizes.0: expected a valid integer, got 'x'"):
            load_config(TrainConfig, write_config(path, tmp_path, tmp_path, model__family="with_options",
                                                  model__sizes=["x"]), [])  # fmt: skip


def test_what_a_continuation_may_change() -> None:
    base = frozen(tiny())
    free = {
        "steps": 100,
        "output": "elsewhere",
        "resume": "must",
        "zero__stage": 3,
        "data__micro_batch": 4,
        "data__shards": "moved",
        "checkpoint__every": 5,
        "evaluate__every": 5,
        "log__every": 5,
    }
    for key, value in free.items():
        assert frozen(tiny(**{key: value})) == base, key
    bound = {
        "seed": 1,
        "data__seed": 1,
        "data__lanes": 2,
        "data__global_batch": 16,
        "optimizer__learning_rate": 0.1,
        "schedule__steps": 9,
        "model__dim": 40,
        "precision": "bf16",
        "gradient_clipping": 2.0,
    }
    for key, value in bound.items():
        changed = frozen(tiny(**{key: value}))
        assert [name for name in base if base[name] != changed[name]] == [key.replace("__", ".")]


def test_lanes_are_frozen_as_they_count() -> None:
    unsaid = [frozen(tiny(data__lanes=None, data__global_batch=size)) for size in (8, 12)]
    assert unsaid[0] == frozen(tiny(data__lanes=8))
    assert [plain["data.lanes"] for plain in unsaid] == [8, 4]


def test_overrides_reach_every_level(tmp_path: Path) -> None:
    path = write_config(tmp_path / "train.yaml", Path("shards"), Path("run"))
    config = load_config(TrainConfig, path, ["zero.stage=3", "schedule.steps=40", "optimizer.eps=1e-8", "steps=20"])
    assert (config.zero.stage, config.schedule.options.steps, config.steps) == (3, 40, 20)
    assert config.optimizer.options.eps == 1e-8


def test_overrides_replace_chosen_algorithms_and_heads(tmp_path: Path) -> None:
    path = write_config(tmp_path / "train.yaml", Path("shards"), Path("run"), optimizer__eps=1e-5)
    config = load_config(TrainConfig, path, ["optimizer={name: adamw}", "model.heads={lm: 2.0}"])
    assert config.optimizer.options.eps == 1e-6
    assert to_plain(config)["model"]["heads"] == {"lm": 2.0}
    config = load_config(TrainConfig, path, ["model.heads.lm=1.0", "optimizer={learning_rate: 0.5}"])
    assert to_plain(config)["model"]["heads"] == {"masked_lm": 1.0, "lm": 1.0}
    assert (config.optimizer.options.eps, config.optimizer.options.learning_rate) == (1e-5, 0.5)


def test_urls_are_saved_as_they_were_given() -> None:
    plain = plain_config(data__heldout={"a": "s3://b/c", "b": "d/e"})
    plain["data"]["shards"] = ["http://host/set", "here"]
    saved = to_plain(validate(TrainConfig, plain, "x"))["data"]
    assert saved["shards"] == ["http://host/set", "here"]
    assert saved["heldout"] == {"a": "s3://b/c", "b": "d/e"}
    assert to_plain(validate(TrainConfig, plain | {"data": saved}, "x"))["data"] == saved


def test_lanes_default() -> None:
    plain = plain_config(data__global_batch=96, data__micro_batch=2)
    del plain["data"]["lanes"]
    assert validate(TrainConfig, plain, "x").data.lane_count == 32
    del plain["data"]["shards"]
    phases = [{"shards": "a", "until_samples": 480, "global_batch": size} for size in (48, 160)]
    plain["data"]["phases"] = [*phases, {"shards": "b"}]
    assert validate(TrainConfig, plain, "x").data.lane_count == 16, "a divisor of every batch"
