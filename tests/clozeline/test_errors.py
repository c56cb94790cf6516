from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from clozeline.configuration.config import load_config
from clozeline.errors import (
    ClozelineError,
    ConfigurationError,
    IntegrityError,
    NewerFormatError,
    PartialFailureError,
    StorageError,
    message_text,
)
from clozeline.pipeline.shards import StoreOptions
from tests.commands import command_module

CODES = {ConfigurationError: 64, NewerFormatError: 64, IntegrityError: 65, PartialFailureError: 69, StorageError: 74}


@pytest.mark.parametrize("kind", CODES)
def test_each_error_has_its_exit_code_and_crosses_processes(kind: type[ClozelineError]) -> None:
    error = pickle.loads(pickle.dumps(kind("expected a, got b")))
    assert (type(error), str(error), error.exit_code) == (kind, "expected a, got b", CODES[kind])


def test_a_password_in_a_message_is_not_shown() -> None:
    assert "hunter2" not in str(StorageError("https://user:hunter2@example.org/set: cannot be read"))
    assert "example.org/set: cannot be read" in str(
        StorageError("https://user:hunter2@example.org/set: cannot be read")
    )


SENTENCE = "It's a document of somebody's, with words and no end to it. "
LONG = 60 << 20


@pytest.mark.parametrize(
    "value",
    ["/data/" + "x" * 300 + "/shard.arrow", repr(SENTENCE * 9), repr(SENTENCE.replace("'", "") * 9),
     str(list(range(300))), str({number: number for number in range(99)})],
)  # fmt: skip
def test_a_long_value_is_cut_and_the_rest_of_a_message_stays(value: str) -> None:
    shown = str(ConfigurationError(f"data.shards: expected a path, got {value}: set's key"))
    start, end = "data.shards: expected a path, got ", ": set's key"
    assert shown.startswith(start + value[:100])
    assert shown.endswith(value[-9:] + end)
    assert len(shown) <= len(start) + 200 + len(end)
    assert "…" in shown


def test_a_message_as_we_write_them_is_not_cut() -> None:
    said = "the row's 1,000 tokens of 'input_ids' exceed the set's " * 12
    for text in (said, "\n".join([said] * 20), "expected [1, 2, 3], got {'a': 'b'} in /tmp/" + "x/" * 70):
        assert message_text(text) == text


@pytest.mark.parametrize("part", ["a", "a b\n", "'", "k=", "["])
def test_a_text_of_any_length_is_cut_at_once(part: str) -> None:
    text = part * (LONG // len(part))
    assert len(message_text(f"expected a path, got {text}")) <= 20_100


def test_no_secret_is_cut_in_two() -> None:
    """The part of it that is left would not be recognised."""
    shown = message_text(f"http://me:{'p' * 300}@example.org/set: cannot be read")
    assert shown == "http://***@example.org/set: cannot be read"


@pytest.mark.parametrize("command", ["validate_shards", "inspect_shard", "shard_stats", "explain_batch"])
def test_a_tool_that_is_given_a_long_path_answers_in_a_few_words(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = "/data/" + "x" * (1 << 20)
    more = {"explain_batch": ["--samples", "0"]}
    main = command_module(command).main
    assert main([path, *more.get(command, [])]) in (64, 74)
    assert len(said := capsys.readouterr().err) < 600, said[:1000]
    assert "Traceback" not in said


def test_a_configuration_with_a_long_value_is_refused_in_a_few_words(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    for text in (f"retries: {'x' * 9999}", f"{'x' * 900}: 1", f"fsspec: {'x y ' * 9999}", f"[{'x' * 9999}"):
        path.write_text(text)
        with pytest.raises(ConfigurationError) as caught:
            load_config(StoreOptions, path)
        assert len(str(caught.value)) < 1200
