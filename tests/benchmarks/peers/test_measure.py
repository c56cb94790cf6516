"""The judge of all loaders: what is wrong with one is seen, and what is right is not complained of."""

import numpy as np
import pytest
import torch

from benchmarks.peers import measure as measuring
from benchmarks.peers.clozeline import LANES, Ours, OursZstd
from benchmarks.peers.loaders import Memmap
from benchmarks.peers.measure import measure
from benchmarks.peers.workload import (
    BATCH,
    LENGTH,
    checksums,
    document_lengths,
    draw_packed_lengths,
    pad_rows,
    sample_indices,
    token_rows,
)
from clozeline.train.configuration.data import default_lanes

_SAMPLES = 100 * BATCH


class RepeatsAndLoses(Memmap):
    """Gives the third batch again in place of the fifth."""

    def __iter__(self):
        kept = None
        for number, batch in enumerate(super().__iter__()):
            kept = batch if number == 2 else kept
            yield kept if number == 4 and kept is not None else batch


class MixesIds(Memmap):
    """Puts two ids of one row in another order."""

    def __iter__(self):
        for number, batch in enumerate(super().__iter__()):
            if number == 7:
                batch[3, 100:102] = torch.tensor([1, 2])
            yield batch


class ResumesLate(Memmap):
    """Leaves one batch out when it continues."""

    def __init__(self, folder, state, workers=0):
        super().__init__(folder, state + BATCH if state else state)


class ResumesInAnotherOrder(Memmap):
    """Delivers every sample, but others together."""

    def __init__(self, folder, state, workers=0):
        super().__init__(folder, state)
        if state:
            self.order[state:] = self.order[state:][::-1].copy()


@pytest.fixture
def lengths(monkeypatch):
    monkeypatch.setattr(measuring, "_SECONDS", 0.0)
    monkeypatch.setattr(measuring, "_WINDOWS", 1)
    monkeypatch.setattr(measuring, "WINDOW", 5)
    monkeypatch.setattr(measuring, "OUR_WINDOW", 5)
    return draw_packed_lengths(_SAMPLES)


def found(case, folder, lengths):
    ids = token_rows(lengths)
    case.write(folder, ids, lengths)
    return measure(case, folder, checksums(ids), workers=0)


def lost(facts, what):
    return facts[f"{what}_delivered"], facts[f"{what}_repeated"], facts[f"{what}_missing"]


@pytest.mark.slow
def test_the_number_of_a_sample_is_in_its_ids():
    ids = token_rows(np.full(60_000, LENGTH))
    assert sample_indices(torch.from_numpy(ids[[0, 49_999, 50_000, 59_999]].astype(np.int64))).tolist() == [
        0, 49_999, 50_000, 59_999,
    ]  # fmt: skip
    assert ids.shape == (60_000, LENGTH)
    assert ids.max() < 50_000


@pytest.mark.parametrize("case", [Memmap, Ours, OursZstd])
@pytest.mark.parametrize("documents", [False, True], ids=["packed", "documents"])
def test_a_right_loader(case, documents, tmp_path, lengths):
    if documents:
        lengths = document_lengths(_SAMPLES, ["a " * length for length in range(1, 800, 7)])
    facts = found(case, tmp_path, lengths)
    assert lost(facts, "epoch") == lost(facts, "resumed") == (_SAMPLES, 0, 0)
    assert facts["identical"] == 1
    if issubclass(case, Ours):
        assert [facts[f"elastic_{what}"] for what in ("repeated", "missing", "other")] == [0, 0, 0]


def test_packed_samples_are_full_but_for_their_share():
    lengths = draw_packed_lengths(38_985)
    assert (lengths < LENGTH).sum() == 15
    assert lengths.min() >= 2


def test_documents_are_as_long_as_their_texts():
    """Drawn from three lengths, each is a third of the rows; longer texts are cut, shorter ones hold their number."""
    lengths = document_lengths(30_000, ["a", "a b c d", "a " * 600])
    values, counts = np.unique(lengths, return_counts=True)
    assert values.tolist() == [2, 4, LENGTH]
    assert counts.min() > 9_500


def test_pads_come_after_the_ids():
    ids = token_rows(np.array([2, 5, LENGTH]))
    assert [int((row > 0).sum()) for row in ids[:, 2:]] == [0, 3, LENGTH - 2]
    assert (ids[1, :5] > 0).sum() >= 3
    assert not ids[1, 5:].any()


def test_lanes_are_the_trainers_default(tmp_path):
    lengths = draw_packed_lengths(_SAMPLES)
    Ours.write(tmp_path, token_rows(lengths), lengths)
    assert Ours(tmp_path, None).stream.lanes == LANES == default_lanes(BATCH)


def test_a_batch_of_rows_of_several_lengths_is_padded():
    batch = pad_rows([np.array([1, 2, 3], np.uint16), np.array([4], np.uint16)])
    assert batch.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert batch.dtype == torch.int64


def test_repeated_and_lost_samples_are_seen(tmp_path, lengths):
    assert lost(found(RepeatsAndLoses, tmp_path, lengths), "epoch") == (_SAMPLES, BATCH, BATCH)


def test_a_changed_row_counts_as_missing(tmp_path, lengths):
    assert lost(found(MixesIds, tmp_path, lengths), "epoch") == (_SAMPLES - 1, 0, 1)


def test_a_late_resume_is_seen(tmp_path, lengths):
    facts = found(ResumesLate, tmp_path, lengths)
    assert lost(facts, "epoch") == (_SAMPLES, 0, 0)
    assert lost(facts, "resumed") == (_SAMPLES - BATCH, 0, BATCH)
    assert facts["identical"] == 0


def test_another_order_after_a_resume_is_seen(tmp_path, lengths):
    facts = found(ResumesInAnotherOrder, tmp_path, lengths)
    assert lost(facts, "resumed") == (_SAMPLES, 0, 0)
    assert facts["identical"] == 0
