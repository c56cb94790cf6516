"""The script for a GPU: its lines on small models, what it skips, and its rows of documents."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import gpu
from benchmarks.gpu_models import SMALL, Experiment
from benchmarks.model import batch_packed_rows, pack_documents

QUICK = ["--tiny", "--warm", "0", "--steps", "2"]


def test_finished_experiments_are_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = tmp_path / "gpu.jsonl"
    names = ["t5 eager 32 rows", "heads in chunks", "update"]
    assert gpu.main([*QUICK, "--output", str(output), "--only", names[0]]) == 0
    first = output.read_text()
    assert gpu.main([*QUICK, "--output", str(output), "--only", *names]) == 0
    assert output.read_text().startswith(first)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["name"] for line in lines] == names
    assert all(line["tiny"] and len(line["kernels"]) == 10 for line in lines)
    assert capsys.readouterr().out.count("tokens/s") == len(names)


def test_compression_has_its_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["product 2:4", "forward dense", "forward int8", "student alone", "student of stored scores"]
    names.append("student of a live teacher")
    assert gpu.main([*QUICK, "--output", str(tmp_path / "gpu.jsonl"), "--only", *names]) == 0
    lines = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    work = {line["name"]: line["operations_per_s"] * line["ms"] for line in lines}
    assert work["forward dense"] == pytest.approx(work["forward int8"])
    assert work["student of stored scores"] == pytest.approx(work["student alone"])
    assert work["student of a live teacher"] > 1.3 * work["student alone"]


def test_nothing_runs_without_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--output", str(tmp_path / "gpu.jsonl")]) == 0
    assert not list(tmp_path.iterdir())


def test_operations_are_those_that_torch_counts() -> None:
    """Full rows; torch counts products of attention in neither pass where a fused kernel on a CPU does them."""
    one = Experiment(preset="bert_base", rows=2, columns=20)
    step, tokens, operations = gpu.steps(one, torch.device("cpu"), tiny=True)
    with FlopCounterMode(display=False) as counted:
        step()
    attention = 3 * SMALL["layers"] * 4 * SMALL["dim"] * 20 * 20 * 2
    assert tokens == 40
    assert counted.get_total_flops() + attention == pytest.approx(operations, rel=0.01)


def test_rows_of_documents_are_laid_end_to_end() -> None:
    rows = pack_documents([300, 200, 20, 12, 500])
    assert rows == [[300, 200, 12], [20], [500]]
    batch = batch_packed_rows([[3, 2], [4]])
    assert batch["cu_seqlens"].tolist() == [0, 3, 5, 9, 10]
    assert batch["document_ids"].tolist() == [[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]]
    assert batch["lengths"].tolist() == [5, 4]
    assert not set(batch["label_index"].tolist()) & {9}
