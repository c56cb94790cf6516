"""A console whose reader may leave."""

from __future__ import annotations

import io

import pytest

from clozeline.terminal import Terminal


class ClosedPipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_closed_pipe_is_left_to_the_command() -> None:
    with pytest.raises(BrokenPipeError):
        Terminal(file=ClosedPipe()).print("table")


def test_an_open_one_has_the_text() -> None:
    file = io.StringIO()
    Terminal(file=file).print("table")
    assert file.getvalue() == "table\n"
