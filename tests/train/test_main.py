"""The entry of one process: it exits by the code of the training, with all that was printed."""

import io
import os
import sys

import pytest

import clozeline.train.command
from clozeline.train import main


def test_what_was_printed_is_written_before_the_process_leaves(monkeypatch):
    written, left = io.BytesIO(), []

    def leave(code):
        left.append((code, written.getvalue()))
        raise SystemExit

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(written)))
    monkeypatch.setattr(clozeline.train.command, "main", lambda words: 70 + sys.stdout.write(" ".join(words)))
    monkeypatch.setattr(main, "leave_at_interrupt", lambda: None)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        main.main(["a", "b"])
    assert left == [(73, b"a b")]
