from contextlib import nullcontext
from itertools import product
from math import gcd
from pathlib import Path

import pytest

from clozeline.configuration.config import config_file, load_config, to_data, validate
from clozeline.configuration.overrides import override
from clozeline.errors import ConfigurationError
from clozeline.train.configuration.checkpoint import milestone_tokens
from clozeline.train.configuration.config import (
    TrainConfig,
    check_schedule,
    check_world,
    frozen,
    with_absolute_paths,
)
from clozeline.train.configuration.data import DataConfig
from clozeline.train.registries import SCHEDULES
from tests.clozeline.test_plugins import MYLAB
from tests.train.masked_set import write_config
from tests.train.starts import filled
from tests.train.synthetic import plain_config, tiny

ON = {"on_divergence": {}, "max_consecutive_skips": 20}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data__lanes": 3}, "data: data.lanes: 3 lanes do not divide data.global_batch 8"),
        ({"zero__ofload": "none"}, "unknown key 'zero.ofload'; did you mean 'zero.offload'?"),
        ({"checkpoint__at": ["1M words"]}, "needs checkpoint.tokens_per_word"),
        (
            {"checkpoint__tokens_per_word": 2.0},
            "tokens_per_word: has no effect without words in checkpoint.at",
        ),
        (
            {"profile": {"from": 6, "steps": 4}},
            "profile: steps 6 to 9 cannot be profiled in a run of 8 steps",
        ),
        ({"data": {"global_batch": 8}}, "expected shards or phases, got neither"),
        ({"data__phases": [{"shards": "b"}]}, "expected shards or phases, got both"),
        (
            {"data": {"phases": [{"shards": "b", "share": 0.5}]}},
            "the last phase takes the remaining",
        ),
        (
            {"data": {"phases": [{"shards": "b", "share": 0.5, "until_samples": 8}]}},
            "share or until_samples, got both",
        ),
        (
            {"data": {"phases": [{"shards": "b", "share": 0.5}] * 2 + [{"shards": "c"}]}},
            "leave some steps to the last",
        ),
        (
            {"data__shards": None, "data__phases": [{"shards": "b"}], "data__weights": [1.0]},
            "set the weights of each",
        ),
    ],
)
def test_mistakes_are_named(change, message):
    with pytest.raises(ConfigurationError) as caught:
        validate(TrainConfig, plain_config(**change), "train.yaml")

    assert message.removeprefix("data: ") in str(caught.value)
    assert caught.value.exit_code == 64

    with pytest.raises(ConfigurationError, match=r"steps: expected at least 1, got 0$"):
        validate(TrainConfig, plain_config(steps=0), "train.yaml")  # no second line about auto


def test_world_that_divides_nothing():
    config = tiny(data__global_batch=12, data__micro_batch=2, data__lanes=4)

    assert [check_world(config, size) for size in (1, 2)] == [6, 3]

    with pytest.raises(
        ConfigurationError, match=r"4 lanes cannot be shared by 3 ranks; start with 1, 2, 4 ranks"
    ):
        check_world(config, 3)

    with pytest.raises(ConfigurationError, match=r"data.global_batch must also be a multiple of 5"):
        check_world(config, 5)

    with pytest.raises(
        ConfigurationError,
        match=r"3 per rank, which micro-batches of 2 do not divide; allowed: 1, 3",
    ):
        check_world(config, 4)

    heads = {"model__heads": {"similarity": {"group_size": 4}}}
    grouped = tiny(data__global_batch=8, data__micro_batch=8, data__lanes=4, **heads)
    assert check_world(grouped, 2) == 1
    with pytest.raises(
        ConfigurationError, match="group_size: expected a divisor of the 2 rows that each of 4"
    ):
        check_world(grouped, 4)


def test_what_a_continuation_may_change():
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


def test_code_of_an_objective_in_the_loader_is_bound(monkeypatch):
    monkeypatch.syspath_prepend(MYLAB)
    monkeypatch.setenv("CLOZELINE_IMPORT", "mylab.objectives.rare_tokens")
    assert "code.mylab.objectives.rare_tokens:RareTokens" in frozen(
        tiny(data__corrupt={"name": "mylab.objectives.rare_tokens:RareTokens"})
    )


def test_words_are_counted_as_tokens():
    assert milestone_tokens(["10M tokens", "2.5k words", "7 tokens", "1Gtokens"], 1.5) == [
        7.0,
        3750.0,
        1e7,
        1e9,
    ]
    assert milestone_tokens(["3 tokens"], None) == [3.0]


@pytest.mark.parametrize(
    "entry", ["10", "10 steps", "M tokens", "-1 tokens", "1e6 tokens", "1 T tokens", ""]
)
def test_other_entries_are_refused(entry):
    with pytest.raises(ValueError, match="expected entries such as 10M tokens or 1M words, got"):
        milestone_tokens([entry], 1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"checkpoint__every": None},
            "on_divergence: returns to a checkpoint: expected checkpoint.every, got null",
        ),
        ({"checkpoint__keep_last": 1}, "checkpoint.keep_last: on_divergence needs 2 or more"),
    ],
)
def test_what_cannot_return_is_refused(change, message):
    with pytest.raises(ConfigurationError, match=message):
        tiny(**{**ON, **change})


def test_what_can_return_is_accepted():
    assert tiny(**ON).on_divergence.max_rollbacks == 3
    tiny(**{**ON, "on_divergence": {"rollback": 2}}, checkpoint__keep_last=3)


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_a_warm_up_fits_if_the_rate_reaches_its_peak(name):
    for warmup, end in product(range(12), range(1, 12)):
        chosen = SCHEDULES.resolve({"name": name, "warmup": warmup})
        schedule = chosen.build(end)
        # step 0 is none of the steps, and without warm-up the rate is at its peak before the first
        peaks = not warmup or max(schedule(step) for step in range(1, end + 1)) == 1.0
        if peaks:
            check_schedule(chosen.options, end)
        else:
            with pytest.raises(
                ConfigurationError,
                match=rf"schedule\.warmup: expected at most {end}, .* got {warmup}",
            ):
                check_schedule(chosen.options, end)


@pytest.mark.parametrize(("end", "fits"), [(6, False), (7, False), (8, True)])
def test_a_decay_starts_before_the_end(end, fits):
    options = SCHEDULES.resolve({"name": "wsd", "decay_from": 7}).options

    with (
        nullcontext()
        if fits
        else pytest.raises(
            ConfigurationError, match=f"decay_from: expected a step before .* at {end}, got 7"
        )
    ):
        check_schedule(options, end)


def test_stored_paths_are_absolute_but_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_config(
        Path("train.yaml"),
        Path("sets/train"),
        Path("run"),
        data__heldout={"a": "sets/b", "c": "/d"},
    )

    config = with_absolute_paths(load_config(TrainConfig, path, ["model.init_from=../other"]))

    assert config.data.first_set == tmp_path / "sets" / "train"
    assert config.data.heldout == {"a": tmp_path / "sets" / "b", "c": Path("/d")}
    assert config.output == tmp_path / "run"
    assert config.model.init_from == tmp_path / ".." / "other"

    remote = load_config(TrainConfig, path, ["data.shards=s3://bucket/train"])

    assert with_absolute_paths(remote).data.first_set == remote.data.first_set
    assert with_absolute_paths(config) == config


def data(**keys):
    return validate(DataConfig, keys, "test", "data.")


def test_shards_alone_are_one_endless_phase_and_phases_are_named_by_their_key():
    found = data(shards=["a", "b"], weights=[1.0, 3.0]).all_phases

    assert list(found) == ["data.shards"]

    (phase,) = found.values()

    assert (phase.sets, phase.weights, phase.until_samples) == (
        [Path("a"), Path("b")],
        [1.0, 3.0],
        None,
    )


@pytest.mark.parametrize(("batches", "lanes"), [([96], 32), ([64, 48], 16), ([512], 64)])
def test_lanes_divide_every_global_batch(batches, lanes):
    phases = [
        {
            "shards": "a",
            "until_samples": 10**6,
            "global_batch": size,
        }
        for size in batches[1:]
    ]
    found = data(phases=[*phases, {"shards": "a"}], global_batch=batches[0])
    assert found.lane_count == lanes == gcd(64, *batches)
    assert data(shards="a", global_batch=batches[0], lanes=2).lane_count == 2


def test_lanes_and_micro_batches_that_nobody_set_follow_the_batch(tmp_path):
    """The default batch keeps its lanes.

    Another one has as many as fit, and a smaller one is one micro-batch.
    """
    recipe = config_file("recipe:demo", "train.yaml")
    words = ["data.shards=s", "output=o"]
    lanes = {}

    for batch in (None, 8, 24, 1):
        asked = (
            []
            if batch is None
            else [f"data.global_batch={batch}", f"data.micro_batch={min(batch, 8)}"]
        )
        lanes[batch] = load_config(TrainConfig, recipe, [*words, *asked]).data.lane_count

    assert lanes == {None: 16, 8: 8, 24: 8, 1: 1}

    small = load_config(TrainConfig, recipe, [*words, "data.global_batch=8", "data.micro_batch=16"])

    assert (
        filled(small).data.micro_batch,
        filled(small, world_size=4).data.micro_batch,
    ) == (8, 2)

    with pytest.raises(ConfigurationError, match="16 lanes do not divide"):
        load_config(TrainConfig, recipe, [*words, "data.global_batch=8", "data.lanes=16"])


def test_urls_keep_their_double_slash_when_written():
    """`Path` folds it; what is written must name the same set when it is read again."""
    given = {"shards": ["s3://bucket/set", "local/set"], "heldout": {"news": "https://h/x"}}
    plain = to_data(data(**given))
    assert (plain["shards"], plain["heldout"]) == (given["shards"], given["heldout"])
    assert to_data(validate(DataConfig, plain, "test")) == plain


def test_a_set_may_stand_with_columns_of_another():
    config = tiny(data__shards={"path": "~/one", "columns": ["two"]})
    assert config.data.first_set == Path("~/one").expanduser()
    assert config.data.all_phases["data.shards"].columns == [(Path("two"),)]


@pytest.mark.parametrize(
    ("word", "after", "dropped"),
    [
        ("schedule=cosine", {"name": "cosine", "warmup": 40, "final": 0.5}, ()),
        ("schedule=constant", {"name": "constant", "warmup": 40}, ("final", "linear")),
        ("schedule.name=constant", {"name": "constant", "warmup": 40}, ("final", "linear")),
        ("schedule={name: cosine}", {"name": "cosine"}, ()),
        ("optimizer=adamw", {"name": "adamw", "weight_decay": 0.2}, ("momentum", "weight_decay=")),
        ("optimizer=adamv", {"name": "adamv", "momentum": 0.8, "weight_decay": 0.2}, ()),
    ],
)
def test_a_name_keeps_what_both_algorithms_have_and_says_what_it_drops(
    capsys, word, after, dropped
):
    before = {
        "schedule": {"name": "linear", "warmup": 40, "final": 0.5},
        "optimizer": {"name": "muon", "momentum": 0.8, "weight_decay": 0.2},
    }
    key = word.partition("=")[0].partition(".")[0]

    assert override(TrainConfig, before, [word], "f")[key] == after

    said = capsys.readouterr().err

    assert bool(said) == bool(dropped)
    assert all(part in said for part in dropped)
