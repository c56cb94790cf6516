"""Whole runs over several sets, phases and samples: what the configuration's key `data` can say."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from clozeline.configuration.config import load_config
from clozeline.errors import ClozelineError, ConfigurationError
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import check_languages, open_datasets
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.run import run
from clozeline.train.startup.announcements import dry_run
from tests.distributed import RankPool
from tests.pipeline.token_sets import recipe, run_stage, write_token_set
from tests.shard_sets import list_column, objective, write_set
from tests.train.masked_set import masked_rows, write_config, write_masked_sets
from tests.train.synthetic import plain_config


def start(world: World, config: Path, overrides: list[str]) -> tuple[int, str]:
    try:
        return run(load_config(TrainConfig, config, overrides), joined=world), ""
    except ClozelineError as error:
        return error.exit_code, str(error)


def config_file(path: Path, data: dict[str, Any], **changes: Any) -> Path:
    plain = plain_config(output=str(path.with_suffix("")), **changes)
    del plain["data"]["shards"]
    plain["data"] |= data
    path.write_text(yaml.safe_dump(plain), encoding="utf-8")
    return path


def logged(config: Path) -> list[tuple[int, str, int]]:
    records = read_lines(config.with_suffix("") / "metrics.jsonl")
    return [(record["step"], record["loss"].hex(), record["samples"]) for record in records if "loss" in record]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("sets")
    return [str(write_masked_sets(folder / name, rows=rows)) for name, rows in (("a", 200), ("b", 90))]


def test_a_url_of_files_finds_its_held_out_set(tmp_path: Path, sets: list[str]) -> None:
    config = config_file(tmp_path / "a.yaml", {"shards": f"file://{sets[0]}"})
    datasets = open_datasets(load_config(TrainConfig, config, []))
    assert {name: len(shards) for name, shards in datasets.heldout.items()} == {"heldout": 45}


def test_samples_are_corrupted_online_beside_a_held_out_set_of_examples(tmp_path: Path) -> None:
    write_token_set(tmp_path, [(31 * document) % 90 for document in range(12)])
    entry = {"name": "masked_lm", "max_length": 16}
    for stage in ("group", "corrupt"):
        run_stage(recipe(tmp_path, [entry]), stage)
    data = {"shards": str(tmp_path / "group" / "packed-14-sep" / "train"), "corrupt": {**entry, "mask_rate": 0.4}}
    examples = tmp_path / "corrupt" / "masked_lm" / "train"
    config = config_file(tmp_path / "run.yaml", {**data, "heldout": {"masked": str(examples)}})
    datasets = open_datasets(load_config(TrainConfig, config, []))
    assert datasets.corruptions == {"masked": None}
    assert datasets.phases[0].sources[0].corruption is not None


def test_a_held_out_set_that_is_a_link_to_nothing_is_not_absent(tmp_path: Path) -> None:
    write_masked_sets(tmp_path)
    manifest = next(tmp_path.rglob("heldout/manifest.json"))
    manifest.unlink()
    manifest.symlink_to("nowhere")
    shards = next(tmp_path.rglob("train/manifest.json"))
    config = config_file(tmp_path / "run.yaml", {"shards": str(shards)})
    with pytest.raises(ClozelineError, match="heldout"):
        open_datasets(load_config(TrainConfig, config, []))


def test_an_optimizer_that_follows_held_out_losses_needs_a_held_out_set(tmp_path: Path) -> None:
    shards = write_masked_sets(tmp_path / "sets")
    config = write_config(tmp_path / "c.yaml", shards, tmp_path / "run", optimizer__name="adamw", evaluate__every=2)
    words = ["optimizer={name: nt_asgd}"]
    assert len(open_datasets(load_config(TrainConfig, config, words)).heldout) == 1
    (tmp_path / "sets" / "heldout" / "manifest.json").unlink()
    with pytest.raises(ConfigurationError, match=r"data\.heldout: nt_asgd follows the held-out loss, and no"):
        open_datasets(load_config(TrainConfig, config, words))


@pytest.mark.slow
@pytest.mark.parametrize("stage", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_phases_change_sets_and_batches_and_resume_exactly(
    one_rank: RankPool, tmp_path: Path, sets: list[str], stage: int
) -> None:
    """Three steps of 8 rows from one set, then steps of 16 from both; stopped before, at and after the boundary."""
    phases = [
        {"shards": sets[0], "until_samples": 48, "global_batch": 8},
        {"shards": sets, "weights": [3.0, 1.0], "global_batch": 16},
    ]
    straight = config_file(tmp_path / "straight.yaml", {"phases": phases}, zero__stage=stage)
    parts = config_file(tmp_path / "parts.yaml", {"phases": phases}, zero__stage=stage)
    assert one_rank.run(start, straight, []) == [(0, "")]
    samples = [record[2] for record in logged(straight)]
    assert samples == [8, 16, 24, 32, 40, 48, 64, 80]
    for steps in (5, 6, 7):
        assert one_rank.run(start, parts, [f"steps={steps}"]) == [(0, "")]
    other = [{**phases[0], "until_samples": 32}, phases[1]]  # what was read stays as it was
    changed = config_file(tmp_path / "parts.yaml", {"phases": other}, zero__stage=stage)
    assert one_rank.run(start, changed, ["steps=8"]) == [(0, "")]
    assert logged(parts) == logged(straight)


def test_another_batch_of_a_phase_is_a_new_phase(one_rank: RankPool, tmp_path: Path, sets: list[str]) -> None:
    """The run's own batch may be spelt out or left out; another one holds from the checkpoint on."""
    path = tmp_path / "run.yaml"
    assert one_rank.run(start, config_file(path, {"phases": [{"shards": sets[0]}]}), ["steps=2"]) == [(0, "")]
    spelt = config_file(path, {"phases": [{"shards": sets[0], "global_batch": 8}]})
    assert one_rank.run(start, spelt, ["steps=3"]) == [(0, "")]
    assert len(plans_of(path)) == 1
    other = config_file(path, {"phases": [{"shards": sets[0], "global_batch": 16}]})
    assert one_rank.run(start, other, ["steps=4"]) == [(0, "")]
    assert [samples for _, _, samples in logged(path)] == [8, 16, 24, 40]
    assert [(until, batch) for _, _, until, batch in plans_of(path)] == [(24, None), (None, 16)]


def test_what_a_checkpoint_holds_of_the_data(one_rank: RankPool, tmp_path: Path, sets: list[str]) -> None:
    """Changes of weights become phases where the run was; weights count as they are drawn, however they are spelt."""
    mixed = tmp_path / "mixed.yaml"
    assert one_rank.run(start, config_file(mixed, {"shards": sets}), ["steps=2"]) == [(0, "")]
    assert one_rank.run(start, config_file(mixed, {"shards": sets, "weights": [2.0, 2.0]}), ["steps=3"]) == [(0, "")]
    assert len(plans_of(mixed)) == 1
    other = config_file(mixed, {"shards": sets, "weights": [3.0, 1.0]})
    assert one_rank.run(start, other, ["steps=4"]) == [(0, "")]
    assert one_rank.run(start, other, ["steps=5"]) == [(0, "")]
    assert one_rank.run(start, config_file(mixed, {"shards": sets[1]}), ["steps=6"]) == [(0, "")]
    assert [(counts, until) for _, counts, until, _ in plans_of(mixed)] == [
        ([2048, 2048], 24), ([3072, 1024], 40), ([1], None)
    ]  # fmt: skip
    events = [event for event in read_lines(mixed.with_suffix("") / "events.jsonl") if event["event"] == "new_phase"]
    assert [event["samples"] for event in events] == [24, 40]


def plans_of(config: Path) -> list[Any]:
    """The phases that the last start of a run recorded."""
    events = read_lines(config.with_suffix("") / "events.jsonl")
    plans: list[Any] = [event["plans"] for event in events if event["event"] == "data"][-1]
    return plans


def test_data_that_does_not_fit_is_refused_before_anything_is_made(
    one_rank: RankPool, tmp_path: Path, sets: list[str]
) -> None:
    for data, problem in (
        ({"shards": sets, "weights": [1.0]}, "expected one for each of 2 sets"),
        ({"phases": [{"shards": sets[0], "until_samples": 44}, {"shards": sets[1]}]}, "is not a multiple of 8"),
    ):
        ((code, message),) = one_rank.run(start, config_file(tmp_path / "run.yaml", data), [])
        assert (code, problem in message) == (64, True)
        assert not (tmp_path / "run").exists()


def test_phases_that_a_checkpoint_cannot_meet_are_refused(one_rank: RankPool, tmp_path: Path, sets: list[str]) -> None:
    """From 16 samples on, batches of 24 miss the end at 48, which would end the run only there; those of 16 do not."""
    path = tmp_path / "run.yaml"
    assert one_rank.run(start, config_file(path, {"shards": sets[0]}), ["steps=2"]) == [(0, "")]
    for batch, code in ((24, 64), (16, 0)):
        phases = [{"shards": sets[0], "until_samples": 48, "global_batch": batch}, {"shards": sets[0]}]
        ((found, message),) = one_rank.run(start, config_file(path, {"phases": phases}), ["steps=5"])
        assert found == code
        assert ("until_samples 48 of phase 1 is not a multiple of 24, counted from 16" in message) == bool(code)
    assert [samples for _, _, samples in logged(path)] == [8, 16, 32, 48, 56]


def test_dry_run_adds_up_the_phases(tmp_path: Path, sets: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """48 rows in steps of 8, then 2 steps of 16 rows from both sets, 3 to 1."""
    phases = [
        {"shards": sets[0], "until_samples": 48, "global_batch": 8},
        {"shards": sets, "weights": [3.0, 1.0], "global_batch": 16},
    ]
    config = load_config(TrainConfig, config_file(tmp_path / "run.yaml", {"phases": phases}), [])
    assert dry_run(config) == 0
    lengths = [float(open_shards(path).read_block(0).columns["input_ids"].lengths.mean()) for path in sets]
    lengths[1] *= 90 / 92  # 4 lanes: the last 2 places of its epochs are filler
    tokens = 48 * lengths[0] + 32 * (3 * lengths[0] + lengths[1]) / 4
    text = capsys.readouterr().out
    assert f"8 steps (schedule ends at 8), {tokens:,.0f} tokens, {80 / 292:.2f} epochs" in text
    assert "8 rows a step = 1 ranks x 4 micro-batches x 2 rows, for 6 steps" in text
    assert "16 rows a step = 1 ranks x 8 micro-batches x 2 rows, for 2 steps" in text


def test_dry_run_tells_of_filler(tmp_path: Path, sets: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """90 rows on 64 lanes: an epoch has 128 places."""
    data = {"shards": sets[1], "global_batch": 64, "lanes": 64}
    assert dry_run(load_config(TrainConfig, config_file(tmp_path / "run.yaml", data), ["steps=4"])) == 0
    length = float(open_shards(sets[1]).read_block(0).columns["input_ids"].lengths.mean())
    text = capsys.readouterr().out
    assert "data       90 rows and 38 of filler an epoch" in text
    assert f"{2 * 90 * length:,.0f} tokens, 2.00 epochs" in text


def test_a_mixture_by_shards_and_weights(tmp_path: Path, sets: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    config = config_file(tmp_path / "mixed.yaml", {"shards": sets, "weights": [2.0, 1.0]})
    assert dry_run(load_config(TrainConfig, config, [])) == 0
    assert "290 rows" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "expected shards or phases, got neither"),
        ({"shards": "x", "phases": [{"shards": "x"}]}, "expected shards or phases, got both"),
        ({"phases": [{"shards": "x"}], "weights": [1.0]}, "each phase has weights of its own"),
    ],
)
def test_shards_or_phases(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    with pytest.raises(ClozelineError, match=message):
        load_config(TrainConfig, config_file(tmp_path / "c.yaml", data), [])


def test_problems_of_phases_end_a_dry_run(tmp_path: Path, sets: list[str]) -> None:
    def problem(data: dict[str, Any]) -> str:
        with pytest.raises(ClozelineError) as caught:
            dry_run(load_config(TrainConfig, config_file(tmp_path / "c.yaml", data), []))
        return str(caught.value)

    endless = [{"shards": sets[0]}, {"shards": sets[1]}]
    assert "only the last may be endless" in problem({"phases": endless})
    odd = [{"shards": sets[0], "until_samples": 44}, {"shards": sets[1]}]
    assert "until_samples 44 of phase 0 is not a multiple of 8" in problem({"phases": odd})
    assert "twice in one mixture" in problem({"shards": [sets[0], sets[0]]})
    assert "expected one for each of 2 sets" in problem({"shards": sets, "weights": [1.0]})
    samples = write_set(tmp_path / "samples", [masked_rows(1, 9)], kind="samples", objective=None,
                        columns=_columns(), tokenizer=_tokenizer())  # fmt: skip
    assert "or set data.corrupt" in problem({"shards": str(samples.path)})
    assert "data.corrupt needs samples" in problem({"shards": sets[0], "corrupt": "masked_lm"})
    frame = {**objective("encoder")["frame"], "padding_side": "left"}
    left = write_masked_sets(
        tmp_path / "left", objective={**objective("encoder"), "heads": ["masked_lm"], "frame": frame}
    )
    two = [{"shards": sets[0], "until_samples": 80}, {"shards": str(left)}]
    assert "encoder and encoder padded on the left" in problem({"phases": two})


def test_rows_that_weigh_alike_are_refused_beside_declared_weights(tmp_path: Path, sets: list[str]) -> None:
    rows = masked_rows(1, 9)
    rows = Rows(rows.fixed, {**rows.columns, "label_weight": Ragged.from_lists([[2.0]] * 9, np.float32)})
    columns = (*_columns(), list_column("label_weight", "float32"))
    facts = {**objective("encoder"), "heads": ["masked_lm"]}
    weighted = write_set(tmp_path / "set", [rows], objective=facts, columns=columns, tokenizer=_tokenizer())

    def config(path: str) -> TrainConfig:
        by_row = {"masked_lm": {"weight": 1.0, "normalise": "row"}}
        written = config_file(tmp_path / "c.yaml", {"shards": path}, model__heads=by_row)
        found: TrainConfig = load_config(TrainConfig, written, [])
        return found

    with pytest.raises(ConfigurationError, match=r"model\.heads\.masked_lm\.normalise: row would mix two units"):
        open_datasets(config(str(weighted.path)))
    assert open_datasets(config(sets[0])).rows == 200


def _columns() -> Any:
    from tests.train.masked_set import COLUMNS

    return COLUMNS


def _tokenizer() -> dict[str, Any]:
    return {"name": "t", "fingerprint": "f", "vocab_size": 99, "special_ids": {"pad": 0, "mask": 3}, "sentinels": []}


@pytest.mark.parametrize(
    ("columns", "embeddings", "message"),
    [
        (("input_ids",), 0, ""),
        (("input_ids",), 2, "corrupt with languages: true"),
        (("input_ids", "languages"), 3, ""),
        (("input_ids", "languages"), 2, r"has 3 languages \(de, en, ur\), the model 2 embeddings; set it to 3"),
    ],
)
def test_every_token_has_a_language_embedding(columns: tuple[str, ...], embeddings: int, message: str) -> None:
    manifest: Any = SimpleNamespace(roles=dict.fromkeys(columns), languages=("de", "en", "ur"))
    if not message:
        check_languages(manifest, embeddings, Path("set"))
        return
    with pytest.raises(ConfigurationError, match=message):
        check_languages(manifest, embeddings, Path("set"))
