"""Errors as messages with exit codes, and the list of keys."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.command import (
    LOG_COLUMNS,
    Parser,
    Stopped,
    keys_of,
    print_keys,
    run_command,
    stopping_at_signals,
    wrap_log,
)
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.recipe import Recipe


def raising(error: BaseException) -> Callable[[], int]:
    def action() -> int:
        raise error

    return action


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigurationError("no such key"), 64, "error: no such key\n"),
        (IntegrityError("lost"), 65, "error: lost\n"),
        (
            PermissionError(13, "Permission denied", "out/a"),
            74,
            "error: out/a: Permission denied; change its permissions, or choose another folder\n",
        ),
        (OSError("odd"), 74, "error: odd\n"),
        (Stopped(), 75, "interrupted: finished units are kept, run the same command again to continue\n"),
        (KeyboardInterrupt(), 130, "interrupted: finished units are kept, run the same command again to continue\n"),
    ],
)
def test_what_a_user_can_correct_is_one_line(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(raising(error)) == code
    assert capsys.readouterr().err == message


def test_a_mistake_of_ours_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(raising(ZeroDivisionError())) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "please report" in shown


def test_success_and_the_message_of_an_interrupted_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(lambda: 3) == 3
    assert run_command(raising(KeyboardInterrupt()), "stopped: nothing was published") == 130
    assert capsys.readouterr().err == "stopped: nothing was published\n"


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_a_signal_ends_what_the_block_started(name: str) -> None:
    ended = []

    def action() -> int:
        with stopping_at_signals():
            try:
                os.kill(os.getpid(), signal.Signals[name])
            finally:
                os.kill(os.getpid(), signal.Signals[name])  # again, while what was started is ended
                ended.append(1)
        return 0

    assert run_command(action) == 75
    assert ended == [1]
    assert signal.getsignal(signal.Signals[name]) is signal.SIG_DFL


def test_wrong_use_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="unrecognized arguments: --wat; see --help"):
        Parser(prog="x").parse_args(["--wat"])


def test_an_option_that_is_a_key_is_answered_with_the_key(capsys: pytest.CaptureFixture[str]) -> None:
    from clozeline.pipeline.execution.recipe_command import main

    assert main(["--config", "recipe:demo", "--input", "x", "--output", "y"]) == 64
    assert capsys.readouterr().err == "error: --input: no such option; keys are written input=VALUE; see --help\n"
    assert main(["--config", "recipe:demo", "--num-workers=2"]) == 64
    assert "keys are written num_workers=2" in capsys.readouterr().err


def test_keys_of_a_recipe_hold_those_of_stages_and_the_options_of_readers() -> None:
    keys = {
        key: (kind, default)
        for key, kind, default, _ in keys_of(Recipe, [("input", "reader", "clozeline.pipeline.ingest.readers")])
    }
    assert keys["dedup.near.bands"] == ("int", "14")
    (name,) = (key for key in keys if key.startswith("input.text_key (reader: ") and "jsonl" in key)
    assert keys[name] == ("str", '"text"')
    assert "input.options" not in keys


def test_keys_are_shown_in_lines_of_120_columns_cut_at_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    address = "x" * 130
    print_keys([("a.key", "int", "1", "word " * 40), ("b", "str", "", address), ("c", "str", "", "y" * 112)])
    head, *lines = capsys.readouterr().out.strip("\n").split("\n")
    assert head.startswith("keys of the configuration")
    assert lines == [
        "  a.key: int = 1: " + "word " * 20, "word " * 20, "  b: str: ", address, "  c: str: ", "y" * 112,
    ]  # fmt: skip


def test_help_into_a_closed_pipe_ends_well(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pipeline", "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == ("", 0)


def test_a_long_message_goes_on_below_its_first_word() -> None:
    long = wrap_log("peak       " + "word " * 20).splitlines()
    assert long == ["peak       " + ("word " * 14).strip(), "           " + ("word " * 6).strip()]
    assert wrap_log("held-out   12 rows\n" + "x " * 50).splitlines()[:2] == ["held-out   12 rows", ("x " * 40).strip()]


def test_commands_and_paths_can_be_copied() -> None:
    command = f"  clozeline explain-batch --run {'long/' * 20} --step 7"
    assert wrap_log(f"step 7: its rows:\n{command}").splitlines()[1] == command
    assert wrap_log(f"report: {'long/' * 20}") == f"report: {'long/' * 20}"


@given(st.lists(st.text("ab-c./é", min_size=1, max_size=79), max_size=30))
def test_no_line_is_longer_than_a_terminal_and_no_word_is_lost(words: list[str]) -> None:
    wrapped = wrap_log(" ".join(words))
    assert wrapped.split() == words
    assert all(len(line) <= LOG_COLUMNS or len(line.split()) <= 2 for line in wrapped.splitlines())


@pytest.mark.parametrize("command", [["pipeline", "--config", "recipe:demo"], ["train", "--config"], ["new"]])
def test_a_word_that_is_not_utf8_is_refused_in_one_sentence(command: list[str]) -> None:
    """The path of a file whose name is in another encoding: Python gives its bytes as surrogates."""
    words = [sys.executable, "-m", "clozeline", *command, b"input=caf\xe9.jsonl"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    assert done.returncode == 64
    assert done.stderr == "error: argument 'input=caf\\udce9.jsonl': expected UTF-8; rename the file or folder\n"
