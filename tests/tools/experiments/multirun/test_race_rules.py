"""Rules of races: what an entry may not touch is refused by name, and what is fixed is the same for all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.configuration.config import load_config, validate
from clozeline.errors import ConfigurationError
from clozeline.tools.experiments.multirun.race_rules import Entry, Race, find_changed_sets, load_race, training_of
from clozeline.train.configuration.config import TrainConfig
from tests.tools.experiments.multirun.small_race import TRAIN, entry, write_race, write_sets

CONFIGS = Path(__file__).parents[4] / "configs"
RACE = load_config(Race, CONFIGS / "race" / "race.yaml")
ALLOWED = ", ".join(name for name in RACE.sets if not name.startswith("halves/"))


def planned(plain: dict[str, Any], seed: int = 3) -> dict[str, Any]:
    made: Entry = validate(Entry, plain, "mine")
    return training_of(RACE, made, "mine", Path("/sets"), Path("/run"), seed, "judging", 3.5)


def test_what_is_fixed_is_the_races_and_the_rest_is_the_entrys() -> None:
    plain = entry(optimizer__learning_rate=0.25)
    before = json.dumps(plain)
    found: TrainConfig = validate(TrainConfig, planned(plain), "")
    assert json.dumps(plain) == before
    assert (found.seed, found.data.seed, found.output) == (3, 3, Path("/run"))
    assert found.data.first_set == Path("/sets") / TRAIN
    assert found.data.heldout == {"heldout": Path("/sets/halves/judging")}
    assert found.early_stop is not None
    assert (found.early_stop.metric, found.early_stop.target) == ("heldout/losses/masked_lm", 3.5)
    assert (found.evaluate.every, found.evaluate.max_rows, found.log.every) == (RACE.every, None, 1)
    assert found.optimizer.options.learning_rate == 0.25
    phases = [{"shards": [TRAIN], "until_samples": 64}, {"shards": TRAIN}]
    in_phases = planned(entry(data={"phases": phases, "global_batch": 8}))["data"]["phases"]
    assert [phase["shards"] for phase in in_phases] == [[f"/sets/{TRAIN}"]] * 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data__heldout": "elsewhere"}, "mine: train.data.heldout: is fixed by the rules of the race"),
        ({"evaluate__max_rows": 8}, "mine: train.evaluate: is fixed"),
        ({"early_stop": {"metric": "heldout/loss"}}, "train.early_stop: is fixed"),
        ({"seed": 1}, "train.seed: is fixed"),
        ({"model__init_from": "runs/trained"}, "train.model.init_from: is fixed"),
        ({"model__init_from": None}, "train.model.init_from: is fixed"),
        ({"data__shards": "halves/judging"}, f"train.data: expected sets of {ALLOWED}, got 'halves/judging'"),
        ({"data__shards": RACE.heldout}, f"train.data: expected sets of {ALLOWED}, got '{RACE.heldout}'"),
        ({"data__shards": [TRAIN, "/other/train"]}, "got '/other/train'"),
        ({"data": {"phases": [{"shards": TRAIN, "until_samples": 8}, {"shards": RACE.heldout}]}}, "train.data: "),
        ({"model__heads": {"masked_lm": {"normalise": "row"}}}, "for all labels, got masked_lm normalised by row"),
        ({"model__heads": {"masked_lm": 1.0, "sentence": 1.0}}, "expected masked_lm alone"),
        ({"model__no_such": 1}, "train.model.no_such"),
        ({"data": 3}, "mine: train.data"),
    ],
)  # fmt: skip
def test_an_entry_that_bends_the_rules_is_refused(changes: dict[str, Any], message: str) -> None:
    plain = entry(**changes) if changes != {"data": 3} else {"said": "", "train": {"data": 3}}
    with pytest.raises(ConfigurationError) as caught:
        planned(plain)
    assert message in str(caught.value)


def test_an_entry_takes_no_more_cores_than_the_race_has() -> None:
    for ranks, threads in ((1, 2), (2, 1)):
        planned({**entry(), "ranks": ranks, "threads": threads})
    with pytest.raises(ConfigurationError, match="mine: expected at most 2 cores, got 2 ranks of 2 threads"):
        planned({**entry(), "ranks": 2, "threads": 2})


def test_other_sets_than_those_of_the_records_are_named(tmp_path: Path) -> None:
    sets = write_sets(tmp_path / "sets")
    folder = write_race(tmp_path / "race", sets, plain=entry(), other=entry("more"))
    race, entries = load_race(folder)
    assert list(entries) == ["other", "plain"]
    assert find_changed_sets(race, sets) == {}
    file, judging = folder / "race.yaml", race.sets["halves/judging"]
    file.write_text(file.read_text(encoding="utf-8").replace(judging, "0" * 64), encoding="utf-8")
    assert find_changed_sets(load_race(folder)[0], sets) == {"halves/judging": judging}
    (folder / "plain.yaml").unlink()
    with pytest.raises(ConfigurationError, match="baseline: expected an entry, of which there are other, got 'plain'"):
        load_race(folder)


def test_the_baseline_is_trained_to_its_end_and_the_entries_until_its_loss() -> None:
    race, entries = load_race(CONFIGS / "race")
    for name, one in entries.items():
        target = None if name == race.baseline else 3.5
        found = training_of(race, one, name, Path("/sets"), Path("/run"), 0, "tuning", target)
        assert ("early_stop" in found) == (name != race.baseline)
        assert found["data"]["heldout"] == {"heldout": "/sets/halves/tuning"}


def test_the_entry_with_adamw_differs_by_its_optimizer_and_steps_alone() -> None:
    """Then what `wide_masks` gains over it is the optimizer's, and what it gains over the baseline is not."""
    adamw, record = (load_race(CONFIGS / "race")[1][name] for name in ("adamw", "wide_masks"))
    assert (adamw.ranks, adamw.threads) == (record.ranks, record.threads)
    others = [
        {key: value for key, value in one.train.items() if key not in ("optimizer", "steps")} for one in (adamw, record)
    ]
    assert others[0] == others[1]
    assert (adamw.train["optimizer"]["name"], record.train["optimizer"]["name"]) == ("adamw", "muon")
