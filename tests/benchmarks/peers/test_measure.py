"""The judge of all loaders: what is wrong with one is seen, and what is right is not complained
of."""

import pytest

from benchmarks.peers import measure as measuring
from benchmarks.peers.clozeline import LANES, Ours, OursZstd
from benchmarks.peers.loaders import Memmap
from benchmarks.peers.measure import measure
from benchmarks.peers.workload import (
    BATCH,
    checksums,
    document_lengths,
    draw_packed_lengths,
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


class ResumesLate(Memmap):
    """Leaves one batch out when it continues."""

    def __init__(self, folder, state, workers=0):
        super().__init__(folder, state + BATCH if state else state)


@pytest.mark.parametrize(
    ("case", "epoch", "resumed", "identical"),
    [
        *((case, (_SAMPLES, 0, 0), (_SAMPLES, 0, 0), 1) for case in (Memmap, Ours, OursZstd)),
        (
            RepeatsAndLoses,
            (_SAMPLES, BATCH, BATCH),
            None,
            None,
        ),  # of what a case is not about, anything goes
        (ResumesLate, (_SAMPLES, 0, 0), (_SAMPLES - BATCH, 0, BATCH), 0),
    ],
)
def test_what_a_loader_delivers(case, epoch, resumed, identical, tmp_path, monkeypatch):
    for name, value in {
        "_SECONDS": 0.0,
        "_WINDOWS": 1,
        "WINDOW": 5,
        "OUR_WINDOW": 5,
    }.items():
        monkeypatch.setattr(measuring, name, value)
    lengths = draw_packed_lengths(_SAMPLES)
    if case is OursZstd:
        lengths = document_lengths(_SAMPLES, ["a " * length for length in range(1, 800, 7)])
    ids = token_rows(lengths)
    case.write(tmp_path, ids, lengths)
    facts = measure(case, tmp_path, checksums(ids), workers=0)
    for part, expected in (("epoch", epoch), ("resumed", resumed)):
        found = tuple(facts[f"{part}_{what}"] for what in ("delivered", "repeated", "missing"))
        assert found == (expected or found), part

    assert facts["identical"] == (facts["identical"] if identical is None else identical)

    if issubclass(case, Ours):
        assert [facts[f"elastic_{what}"] for what in ("repeated", "missing", "other")] == [0, 0, 0]
        assert case(tmp_path, None).stream.lanes == LANES == default_lanes(BATCH)
