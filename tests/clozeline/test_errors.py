import inspect
import pickle

import pytest

from clozeline import errors
from clozeline.errors import (
    STOPPED,
    WATCHDOG,
    ClozelineError,
    ConfigurationError,
    NewerFormatError,
    RemoteRankError,
    StateMismatch,
    StorageError,
    message_text,
)

CODES = {
    "ConfigurationError": 64,
    "NewerFormatError": 64,
    "StateMismatch": 64,
    "IntegrityError": 65,
    "CheckpointError": 65,
    "PartialFailureError": 69,
    "StorageError": 74,
    "SaveError": 74,
    "DivergedError": 76,
    "OutOfMemoryError": 77,
}


def test_each_error_has_its_exit_code():
    assert {name: getattr(errors, name).exit_code for name in CODES} == CODES
    assert len({WATCHDOG, STOPPED, 64, 65, 74, 76, 77}) == 7

    kinds = [
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    ]

    assert all(issubclass(kind, ClozelineError) for kind in kinds)
    assert RemoteRankError("rank 3: no space", 74).exit_code == 74


@pytest.mark.parametrize(
    "error",
    [
        ConfigurationError("expected a, got b"),
        NewerFormatError("a"),
        StateMismatch("lanes", 8, [4]),
    ],
    ids=repr,
)
def test_errors_cross_processes(error):
    crossed = pickle.loads(pickle.dumps(error))
    assert (
        type(crossed),
        str(crossed),
        vars(crossed),
    ) == (type(error), str(error), vars(error))
    assert not isinstance(error, StateMismatch) or "lanes was saved as 8, this run has [4]" in str(
        error
    )


def test_a_password_in_a_message_is_not_shown():
    """Nor its half: the part of it that is left would not be recognized."""
    shown = str(StorageError("https://user:hunter2@example.org/set: cannot be read"))
    assert "hunter2" not in shown
    assert "example.org/set: cannot be read" in shown
    shown = message_text(f"http://me:{'p' * 300}@example.org/set: cannot be read")
    assert shown == "http://***@example.org/set: cannot be read"


SENTENCE = "It's a document of somebody's, with words and no end to it. "


@pytest.mark.parametrize(
    "value",
    [
        "/data/" + "x" * 300 + "/shard.arrow",
        repr(SENTENCE * 9),
        repr(SENTENCE.replace("'", "") * 9),
        str(list(range(300))),
        str({number: number for number in range(99)}),
    ],
)
def test_a_long_value_is_cut_and_the_rest_of_a_message_stays(value):
    shown = str(ConfigurationError(f"data.shards: expected a path, got {value}: set's key"))
    start = "data.shards: expected a path, got "
    end = ": set's key"

    assert shown.startswith(start + value[:100])
    assert shown.endswith(value[-9:] + end)
    assert len(shown) <= len(start) + 200 + len(end)
    assert "…" in shown


def test_a_message_as_we_write_them_is_not_cut():
    said = "the row's 1,000 tokens of 'input_ids' exceed the set's " * 12
    for text in (
        said,
        "\n".join([said] * 20),
        "first:\n  clozeline train checkpoint.allow_changed=[" + "optimizer," * 150 + "seed]",
        "expected [1, 2, 3], got {'a': 'b'} in /tmp/" + "x/" * 70,
    ):
        assert message_text(text) == text
