"""One child for all imports of a test process, which would start one each: importing transformers takes a second."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_CHILD = "clozeline.pipeline.tokenize.published.auto_tokenizer"


@contextmanager
def lasting_child() -> Iterator[Callable[[Mapping[str, Any]], str]]:
    """Yield a stand-in for `importing.ask_child`, and end its process."""
    children: list[subprocess.Popen[str]] = []

    def ask(request: Mapping[str, Any]) -> str:
        if not children or children[-1].poll() is not None:
            pipe, command = subprocess.PIPE, [sys.executable, "-m", _CHILD]
            child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True)
            children.append(child)
        child = children[-1]
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(request) + "\n")
        child.stdin.flush()
        return child.stdout.readline()

    try:
        yield ask
    finally:
        for child in children:
            child.communicate()
