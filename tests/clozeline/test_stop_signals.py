from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from clozeline.stop_signals import WARNINGS


@pytest.mark.parametrize("number", WARNINGS, ids=lambda number: number.name)
def test_a_warning_without_a_handler_ends_the_process(number: signal.Signals) -> None:
    code = f"import resource, signal; resource.setrlimit(resource.RLIMIT_CORE, (0, 0)); signal.raise_signal({number})"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -number
