"""A mixture of a hundred languages: trained, evaluated, explained and searched."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from clozeline.configuration.config import load_config
from clozeline.tools.shards import explain_batch, where_is
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.spikes import Spikes
from clozeline.train.run import run
from tests.distributed import RankPool
from tests.shard_sets import change_manifest, objective, write_set
from tests.train.masked_set import COLUMNS, FIRST_WORD, WORDS, masked_rows
from tests.train.synthetic import plain_config

LANGUAGES = 100
"""More than the 64 arrays that a call of numpy may take."""
STEPS = 6
LANES = 96


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run's configuration, run.yaml, over a set for each language."""
    folder = tmp_path_factory.mktemp("languages")
    names = {"name": "byte_bpe", "fingerprint": "f" * 64, "sentinels": []}
    options: dict[str, Any] = {
        "columns": COLUMNS,
        "objective": {**objective("encoder"), "heads": ["masked_lm"]},
        "tokenizer": {**names, "vocab_size": FIRST_WORD + WORDS, "special_ids": {"pad": 0, "mask": 3}},
    }
    write_set(folder / "l000", [masked_rows(1, 96)], name="l000/train", **options)
    for number in range(1, LANGUAGES):
        shutil.copytree(folder / "l000", folder / f"l{number:03}")
        change_manifest(
            folder / f"l{number:03}", lambda plain, name=f"l{number:03}": plain.update(name=f"{name}/train")
        )
    sets = [str(folder / f"l{number:03}") for number in range(LANGUAGES)]
    plain = plain_config(
        data={"shards": sets, "global_batch": LANES, "micro_batch": LANES // 2, "lanes": LANES, "io_threads": 1,
              "heldout": {f"l{number:03}": path for number, path in enumerate(sets[:70])}},
        evaluate={"every": STEPS, "max_rows": LANES}, output=str(folder / "run"), steps=STEPS, schedule__steps=STEPS,
    )  # fmt: skip
    (folder / "run.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
    return folder


def start(world: World, config: Path, overrides: Sequence[str] = ()) -> int:
    """A run in which the fourth step counts as a spike."""

    def detect(_: Spikes, record: dict[str, Any]) -> dict[str, dict[str, float]]:
        return {"loss": {"value": 9.0, "median": 3.0, "deviations": 7.0}} if record["step"] == 4 else {}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spikes, "detect", detect)
        return run(load_config(TrainConfig, config, list(overrides)), joined=world)


@pytest.mark.slow
def test_a_mixture_of_many_languages(one_rank: RankPool, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert one_rank.run(start, folder / "run.yaml") == [0]
    events = read_lines(folder / "run" / "events.jsonl")
    (spike,) = [event for event in events if event["event"] == "spike"]
    shown = printed(capsys, explain_batch, ["--run", str(folder / "run"), "--step", "4"])
    rows = [one for one in shown if "sample" in one]
    assert len({one["set"] for one in rows}) > 64
    assert (
        spike["rows_source_block_row"]
        == [[int(one["set"][1:4]), one["block"], one["row"]] for one in rows][: len(spike["rows_source_block_row"])]
    )
    assert len(shown) == LANES
    found = printed(capsys, where_is, ["--run", str(folder / "run"), "--uid", rows[7]["sample"], "--epochs", "1"])
    assert (rows[7]["set"], 4) in [(one["set"], one["step"]) for one in found]
    last = read_lines(folder / "run" / "metrics.jsonl")[-1]
    assert len(last["heldout"]) == 70
    losses = step_losses(folder / "run")
    assert len(losses) == STEPS
    for steps in (3, STEPS):  # stopped half-way, and resumed
        words = [f"output={folder / 'parts'}", "evaluate.max_rows=0", f"steps={steps}"]
        assert one_rank.run(start, folder / "run.yaml", words) == [0]
    assert step_losses(folder / "parts") == losses


def step_losses(run: Path) -> list[float]:
    return [record["loss"] for record in read_lines(run / "metrics.jsonl")]


def printed(capsys: pytest.CaptureFixture[str], tool: Any, words: list[str]) -> list[dict[str, Any]]:
    assert tool.main([*words, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]
