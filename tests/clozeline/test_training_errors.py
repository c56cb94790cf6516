"""Errors of a run: each has its own exit code, and they cross process boundaries."""

from __future__ import annotations

import inspect
import pickle

from clozeline import errors
from clozeline.errors import (
    STOPPED,
    WATCHDOG,
    ClozelineError,
    DivergedError,
    OutOfMemoryError,
    PeerError,
    StateMismatch,
)

TABLE = {"CheckpointError": 65, "SaveError": 74, "DivergedError": 76, "OutOfMemoryError": 77, "StateMismatch": 64}


def test_exit_codes_are_those_of_the_table() -> None:
    assert {name: getattr(errors, name).exit_code for name in TABLE} == TABLE
    assert len({WATCHDOG, STOPPED, DivergedError.exit_code, OutOfMemoryError.exit_code, 64, 65, 74}) == 7
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]
    assert all(issubclass(kind, ClozelineError) for kind in kinds)


def test_an_error_of_a_peer_has_the_peers_code() -> None:
    assert PeerError("rank 3: no space", 74).exit_code == 74


def test_a_mismatch_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(StateMismatch("lanes", 8, [4])))
    assert (error.field, error.saved, error.current) == ("lanes", 8, [4])
    assert str(error) == str(StateMismatch("lanes", 8, [4]))
    assert "lanes was saved as 8, this run has [4]" in str(error)
