"""Command lines: errors as messages with exit codes, signals, lost output, and the list of keys."""

import os
import signal
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.command import (
    LOG_COLUMNS,
    Stopped,
    run_command,
    stopping_at_signals,
    wrap_log,
)
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.execution.recipe_command import main
from tests.lost_output import WAYS, exit_code


def raising(error):
    def action():
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
        (
            Stopped(),
            75,
            "interrupted: finished units are kept, run the same command again to continue\n",
        ),
        (
            KeyboardInterrupt(),
            130,
            "interrupted: finished units are kept, run the same command again to continue\n",
        ),
    ],
)
def test_what_a_user_can_correct_is_one_line(error, code, message, capsys):
    assert run_command(raising(error)) == code
    assert capsys.readouterr().err == message


def test_a_mistake_of_ours_shows_where(capsys):
    assert run_command(raising(ZeroDivisionError())) == 1

    shown = capsys.readouterr().err

    assert "Traceback" in shown
    assert "please report" in shown
    assert run_command(lambda: 3) == 3
    assert run_command(raising(KeyboardInterrupt()), "stopped: nothing was published") == 130
    assert capsys.readouterr().err == "stopped: nothing was published\n"


@pytest.mark.usefixtures("default_signals")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU"])
def test_a_signal_ends_what_the_block_started(name):
    ended = []
    before = signal.getsignal(signal.Signals[name])

    def action():
        with stopping_at_signals():
            try:
                os.kill(os.getpid(), signal.Signals[name])
            finally:
                os.kill(os.getpid(), signal.Signals[name])  # again, while what was started is ended
                ended.append(1)

        return 0

    assert run_command(action) == 75
    assert ended == [1]
    assert signal.getsignal(signal.Signals[name]) is before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-workers=2"], "unknown key 'num_workers'; here it is 'executor.workers'"),
        (["--wat"], "--wat: no such option"),
        (["--dry-run", "output=x"], "'--plan'"),
        (["dry_run=true"], "'--plan'"),
        (["--resume"], "start the same command again"),
        (["--force"], "--force STAGE"),
        (["--verfy"], "--verfy: no such option; did you mean '--verify'?"),
    ],
)
def test_an_option_that_is_no_key_is_answered_with_the_nearest(words, message, capsys):
    assert main(["--config", "recipe:demo", *words]) == 64
    assert message in capsys.readouterr().err


@given(st.lists(st.text("ab-c./é", min_size=1, max_size=79), max_size=30))
def test_no_line_is_longer_than_a_terminal_and_no_word_is_lost(words):
    wrapped = wrap_log(" ".join(words))
    assert wrapped.split() == words
    assert all(len(line) <= LOG_COLUMNS or len(line.split()) <= 2 for line in wrapped.splitlines())


@pytest.mark.parametrize(
    "command", [["pipeline", "--config", "recipe:demo"], ["train", "--config"], ["new"]]
)
def test_a_word_that_is_not_utf8_is_refused_in_one_sentence(command):
    """The path of a file whose name is in another encoding: Python gives its bytes as
    surrogates."""
    words = [sys.executable, "-m", "clozeline", *command, b"input=caf\xe9.jsonl"]
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    said = "error: argument 'input=caf\\udce9.jsonl': expected UTF-8; rename the file or folder\n"
    assert (done.returncode, done.stderr) == (64, said)


WORK = """
import contextlib, logging, os, subprocess, sys, threading, warnings
from pathlib import Path
from rich.console import Console
from rich.progress import track
from clozeline.command import run_command

def work():
    out = Path(sys.argv[1]).open("w")  # takes the lowest free descriptor
    thread = threading.Thread(target=print, args=("in a thread",))
    for step in track(range(40), console=Console(stderr=True)):
        print("a line \\u2192", "x" * 1000, flush=step % 2 == 0)
        print("a line", file=sys.stderr)
        Console().print("a table")
        logging.getLogger("clozeline").warning("a warning")
        warnings.warn(f"number {step}")
        out.write(f"{step}\\n")
    for descriptor in (1, 2):  # a library in C
        with contextlib.suppress(OSError):
            os.write(descriptor, b"a library")
    thread.start()
    thread.join()
    subprocess.run([sys.executable, "-c", "import os; os.fstat(1); os.fstat(2)"], check=True)  # it has both, too
    subprocess.run([sys.executable, "-c", "import os; os.write(1, b'a child'); os.write(2, b'a child')"], check=False)
    out.close()
    return 3

if __name__ == "__main__":
    raise SystemExit(run_command(work))
"""


@pytest.mark.parametrize("way", WAYS)
def test_work_goes_on_and_keeps_its_exit_code(tmp_path, way):
    """And its file holds what it wrote: no message arrives there by a descriptor that was free."""
    out = tmp_path / "out"
    assert exit_code(way, [sys.executable, "-c", WORK, str(out)]) == 3
    assert out.read_text() == "".join(f"{step}\n" for step in range(40))


def test_a_terminal_without_the_character_shows_its_code(tmp_path):
    environment = {
        "PYTHONIOENCODING": "latin-1",
        "PYTHONPATH": ":".join(sys.path),
        "PATH": "/usr/bin:/bin",
    }

    command = [sys.executable, "-c", WORK, str(tmp_path / "out")]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)

    assert done.returncode == 3, done.stderr
    assert b"a line \\u2192" in done.stdout


RESULT = """
import errno, sys
from clozeline.command import run_command

def work():
    if sys.argv[1] == "print":
        for _ in range(100_000): print("a row of the result")
    else:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe", "a store")
    return 0

raise SystemExit(run_command(work, prints=True))
"""


@pytest.mark.parametrize(
    ("way", "code"), [("no reader", 141), ("full disk", 74), ("closed terminal", 74)]
)
def test_a_result_that_cannot_be_printed_is_no_success(way, code):
    assert exit_code(way, [sys.executable, "-c", RESULT, "print"]) == code


def test_a_pipe_of_the_work_that_breaks_is_an_error():
    """`BrokenPipeError` alone does not say that the reader of the output has gone."""
    done = subprocess.run(
        [sys.executable, "-c", RESULT, "work"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 74
    assert done.stderr.startswith("error: ")


IGNORED = """
import os, signal, sys
from clozeline.command import run_command, stopping_at_signals

def work():
    with stopping_at_signals():
        for number in (signal.SIGHUP, signal.SIGINT):
            os.kill(os.getpid(), number)
        print("goes on", flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

sys.exit(run_command(work))
"""


def test_what_is_ignored_at_the_start_stays_ignored_and_sigterm_stops():
    """As under `nohup`, and for a command with `&` in a script."""
    shell = ["sh", "-c", "trap '' HUP INT; exec \"$@\"", "sh", sys.executable, "-c", IGNORED]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (75, "goes on\n"), done.stderr


WAITING = """
import sys, threading
from clozeline.process import die_with
die_with(int(sys.argv[1]))
print("armed", flush=True)
threading.Event().wait()
"""


def test_it_ends_with_the_other_process_and_not_before():
    needed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    command = [sys.executable, "-c", WAITING, str(needed.pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout.readline() == "armed\n"
        assert waiting.poll() is None
        needed.communicate(b"\n")
        assert waiting.wait(timeout=60) == 1
