"""The entry of one process: it exits by the code of the training, with all that was printed."""

import io
import os
import sys

import pytest

import clozeline.train.command
from clozeline.train import main


def test_what_was_printed_is_written_before_the_process_leaves(monkeypatch):
    written, left = {name: io.BytesIO() for name in ("stdout", "stderr")}, []
    for name, raw in written.items():
        monkeypatch.setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(raw), write_through=False))

    def train(arguments):
        for stream in (sys.stdout, sys.stderr):
            stream.write(" ".join(arguments))
        return 75

    def leave(code):
        left.append((code, {raw.getvalue() for raw in written.values()}))
        raise SystemExit

    monkeypatch.setattr(clozeline.train.command, "main", train)
    monkeypatch.setattr(main, "leave_at_interrupt", lambda: None)
    monkeypatch.setattr(os, "_exit", leave)
    with pytest.raises(SystemExit):
        main.main(["a", "b"])
    assert left == [(75, {b"a b"})]
