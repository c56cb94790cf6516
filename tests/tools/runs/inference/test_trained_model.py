"""A model filled from a checkpoint, however its parameters were cut into parts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import save_file

from clozeline.errors import CheckpointError, ConfigurationError
from clozeline.files import file_hash
from clozeline.model.build import Model, build_model
from clozeline.pipeline.shards import open_shards
from clozeline.tools.runs.inference.trained_model import load_trained
from clozeline.train.checkpoint.format import FileRecord, Index, ParameterRecord, part_name
from clozeline.train.data.sets.recorded_sets import record_sets
from clozeline.train.data.stream.phases import open_phases
from clozeline.train.startup.run_directory import read_config
from tests.tools.small_run import example_sets
from tests.train.synthetic import plain_config


def write_run(
    run: Path, shard_sets: Path, steps: list[int], parts: int, label: str = "masked_lm", **changes: Any
) -> Model:
    """Write a run directory with the same model at each step; return the model."""
    return write_run_on(run, example_sets(shard_sets)[label][0], steps, parts, **changes)


def write_run_on(run: Path, manifest: Path, steps: list[int], parts: int, **changes: Any) -> Model:
    """The same, of a run that any set was made for."""
    settings = {"data__shards": str(manifest), "output": str(run), "model__position": {"maximum": 64}}
    plain = plain_config(**settings | changes)
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.yaml").write_text(yaml.safe_dump(plain))
    config = read_config(run)
    record_sets(run, config.data, open_phases(config.data))
    facts = open_shards(manifest).manifest.tokenizer
    torch.manual_seed(5)
    model = build_model(config.model, facts.vocab_size, facts.special_ids)
    tensors: list[dict[str, torch.Tensor]] = [{} for _ in range(parts)]
    records = {}
    for name, parameter in model.named_parameters():
        flat, slices = parameter.detach().reshape(-1), []
        bounds = [len(flat) * part // parts for part in range(parts + 1)]
        for part, (first, last) in enumerate(pairwise(bounds)):
            if first < last:
                tensors[part][f"weight/{name}"] = flat[first:last].clone()
                slices.append((part, first, last - first))
        records[name] = ParameterRecord(list(parameter.shape), "decay", ["weight"], slices)
    for step in steps:
        folder = run / "checkpoints" / f"step-{step:08d}"
        folder.mkdir(parents=True)
        for part, content in enumerate(tensors):
            save_file(content, folder / part_name(part))
        names = [part_name(part) for part in range(parts)]
        files = {name: FileRecord((folder / name).stat().st_size, file_hash(folder / name)) for name in names}
        Index({"step": step, "samples": 8 * step}, {}, records, [], files).write(folder)
        (folder.parent / "latest").write_text(f"{folder.name}\n")
    return model


@pytest.mark.parametrize("parts", [1, 3])
def test_parameters_are_those_of_the_parts(shard_sets: Path, tmp_path: Path, parts: int) -> None:
    with pytest.raises(ConfigurationError, match="expected a run directory with checkpoints"):
        load_trained(tmp_path)
    model = write_run(tmp_path, shard_sets, [12], parts)
    found = load_trained(tmp_path)
    assert (found.step, found.model.training) == (12, False)
    manifest = example_sets(shard_sets)["masked_lm"][0]
    assert found.tokenizer.vocabulary.fingerprint == open_shards(manifest).manifest.tokenizer.fingerprint
    assert [one.path for one in found.sets] == [str(manifest)]
    wanted = dict(model.named_parameters())
    for name, parameter in found.model.named_parameters():
        assert torch.equal(parameter, wanted[name]), name


def test_any_checkpoint_of_a_run_is_read(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By its step; a damaged one is an error then, and passed over where none was asked for."""
    write_run(tmp_path, shard_sets, [12, 24], 2)
    assert [load_trained(tmp_path, step).step for step in (None, 12, 24)] == [24, 12, 24]
    with pytest.raises(ConfigurationError, match="holds no checkpoint of step 1, only of 12, 24"):
        load_trained(tmp_path, 1)
    assert capsys.readouterr().err == ""
    part = tmp_path / "checkpoints" / "step-00000024" / part_name(1)
    part.write_bytes(part.read_bytes()[:-1])
    assert load_trained(tmp_path).step == 12
    assert "note: step-00000024 is passed over" in capsys.readouterr().err
    with pytest.raises(CheckpointError, match="truncated or replaced"):
        load_trained(tmp_path, 24)
    path = tmp_path / "config.yaml"
    path.write_text(path.read_text().replace("ffn_dim: ", "ffn_dim: 1"))
    with pytest.raises(CheckpointError, match="holds another model than"):
        load_trained(tmp_path)
