"""The judge of all loaders: what is wrong with one is seen, and what is right is not complained of."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.peers import measure as measuring
from benchmarks.peers.clozeline import Ours, OursZstd
from benchmarks.peers.flat_binary import Memmap
from benchmarks.peers.measure import measure
from benchmarks.peers.workload import BATCH, LENGTH, Loader, marks, numbers, token_rows

_SAMPLES = 100 * BATCH


class RepeatsAndLoses(Memmap):
    """Gives the third batch again in place of the fifth."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        kept = None
        for number, batch in enumerate(super().__iter__()):
            kept = batch if number == 2 else kept
            yield kept if number == 4 and kept is not None else batch


class MixesIds(Memmap):
    """Puts two ids of one row in another order."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        for number, batch in enumerate(super().__iter__()):
            if number == 7:
                batch[3, 100:102] = torch.tensor([1, 2])
            yield batch


class ResumesLate(Memmap):
    """Leaves one batch out when it goes on."""

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        super().__init__(folder, state + BATCH if state else state)


class ResumesInAnotherOrder(Memmap):
    """Delivers every sample, but others together."""

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        super().__init__(folder, state)
        if state:
            self.order[state:] = self.order[state:][::-1].copy()


@pytest.fixture
def ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.setattr(measuring, "_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "_WINDOWS", 1)
    monkeypatch.setattr(measuring, "WINDOW", 5)
    return token_rows(_SAMPLES)


def found(case: type[Loader], folder: Path, ids: Any) -> dict[str, float]:
    case.write(folder, ids)
    return measure(case, folder, marks(ids), workers=0)


def lost(facts: dict[str, float], what: str) -> tuple[float, float, float]:
    return facts[f"{what}_delivered"], facts[f"{what}_repeated"], facts[f"{what}_missing"]


def test_the_number_of_a_sample_is_in_its_ids() -> None:
    ids = token_rows(60_000)
    assert numbers(torch.from_numpy(ids[[0, 49_999, 50_000, 59_999]].astype(np.int64))).tolist() == [
        0, 49_999, 50_000, 59_999,
    ]  # fmt: skip
    assert ids.shape == (60_000, LENGTH)
    assert ids.max() < 50_000


@pytest.mark.parametrize("case", [Memmap, Ours, OursZstd])
def test_a_right_loader(case: type[Loader], tmp_path: Path, ids: Any) -> None:
    facts = found(case, tmp_path, ids)
    assert lost(facts, "epoch") == lost(facts, "resumed") == (_SAMPLES, 0, 0)
    assert facts["identical"] == 1
    if issubclass(case, Ours):
        assert [facts[f"elastic_{what}"] for what in ("repeated", "missing", "other")] == [0, 0, 0]


def test_repeated_and_lost_samples_are_seen(tmp_path: Path, ids: Any) -> None:
    assert lost(found(RepeatsAndLoses, tmp_path, ids), "epoch") == (_SAMPLES, BATCH, BATCH)


def test_a_changed_row_counts_as_missing(tmp_path: Path, ids: Any) -> None:
    assert lost(found(MixesIds, tmp_path, ids), "epoch") == (_SAMPLES - 1, 0, 1)


def test_a_late_resume_is_seen(tmp_path: Path, ids: Any) -> None:
    facts = found(ResumesLate, tmp_path, ids)
    assert lost(facts, "epoch") == (_SAMPLES, 0, 0)
    assert lost(facts, "resumed") == (_SAMPLES - BATCH, 0, BATCH)
    assert facts["identical"] == 0


def test_another_order_after_a_resume_is_seen(tmp_path: Path, ids: Any) -> None:
    facts = found(ResumesInAnotherOrder, tmp_path, ids)
    assert lost(facts, "resumed") == (_SAMPLES, 0, 0)
    assert facts["identical"] == 0
