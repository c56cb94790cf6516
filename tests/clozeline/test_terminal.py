"""What a stranger wrote, on a terminal."""

import io
import os
import pty
import sys
import termios
import threading
import unicodedata

import pytest

from clozeline.command import run_command
from clozeline.errors import ConfigurationError
from clozeline.terminal import (
    Terminal,
    duration,
    size_text,
    time_left,
)

HOSTILE = "\x1b]0;owned\x07\x9b2J\r\u202ecod\u2066\x7f\x00"
SHOWN = "\\x1b]0;owned\\x07\\x9b2J\\r\\u202ecod\\u2066\\x7f\\x00"


def on_a_terminal(action, monkeypatch):
    """Everything that a command writes to a terminal, with the styles that a terminal without
    colors gets."""
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    ours, its = pty.openpty()
    settings = termios.tcgetattr(its)
    settings[1] &= ~termios.OPOST  # line ends as they are written
    termios.tcsetattr(its, termios.TCSANOW, settings)
    written = bytearray()

    def collect():
        while not written.endswith(b"\x04"):
            written.extend(os.read(ours, 4096))

    reader = threading.Thread(target=collect)
    reader.start()

    with os.fdopen(its, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        run_command(lambda: (action(), 0)[1])
        monkeypatch.undo()
        terminal.write("\x04")
        terminal.flush()
        reader.join()

    os.close(ours)
    return written[:-1].decode()


def fail(error):
    raise error


@pytest.mark.parametrize(
    "action",
    [
        lambda: print(f"a\tb\n{HOSTILE}"),
        lambda: sys.stdout.write(f"a\tb\n{HOSTILE}"),
        lambda: Terminal().print(f"a\tb\n{HOSTILE}", markup=False, soft_wrap=True),
        lambda: fail(ConfigurationError(f"a\tb\n{HOSTILE}")),
        lambda: fail(FileNotFoundError(2, "a\tb\nNo such file", HOSTILE)),
        lambda: fail(RuntimeError(f"a\tb\n{HOSTILE}")),
    ],
)
def test_no_control_character_reaches_a_terminal(action, monkeypatch):
    written = on_a_terminal(action, monkeypatch)

    assert {letter for letter in written if unicodedata.category(letter) in ("Cc", "Cf")} <= {
        "\n",
        "\t",
    }
    assert SHOWN.replace("\\x07", "").replace("\\r", "") in written.replace("\\x07", "").replace(
        "\\r", ""
    )
    assert "b\n" in written, "lines stay lines"


def test_scripts_styles_and_pipes_stay(monkeypatch, capsys):
    """The reader of a pipe gets the bytes of the documents."""
    text = "می\u200cخواهم 👩\u200d👧 \u200fאב\u200e e\u0301"

    assert text in on_a_terminal(lambda: print(text), monkeypatch)

    file = io.StringIO()
    Terminal(file=file, force_terminal=True, color_system="standard").print(
        "[bold]a[/bold]\x1b", highlight=False
    )

    assert file.getvalue() == "\x1b[1ma\x1b[0m\\x1b\n"

    run_command(lambda: (print(HOSTILE, end=""), 0)[1])

    assert capsys.readouterr().out == HOSTILE


def test_durations_and_sizes_are_in_the_units_of_people():
    shown = {
        0.04: "0.0 s",
        59.94: "59.9 s",
        110: "1 min 50 s",
        3599.4: "59 min 59 s",
        7380: "2 h 3 min",
    }

    assert {seconds: duration(seconds) for seconds in shown} == shown
    assert time_left(2940) == "0:49:00 left"

    shown = {
        0: "0 bytes",
        999: "999 bytes",
        1000: "1.0 KB",
        7_340_000_000: "7.3 GB",
        2.5e16: "25000.0 TB",
    }

    assert {size: size_text(size) for size in shown} == shown
