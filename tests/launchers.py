"""Stand-ins for commands of a cluster: `srun`, `scontrol` and `pdsh`, which run what they are given on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

SRUN = """
import os, signal, subprocess, sys, time
from pathlib import Path

words = [word for word in sys.argv[1:] if word != "--kill-on-bad-exit=1"]
words[0] = sys.executable if words[0] == ".venv/bin/python" else words[0]
size = os.environ["SLURM_NTASKS"]
step = {"SLURM_STEP_NUM_TASKS": size, "SLURM_STEP_NODELIST": "localhost"}
tasks = [
    subprocess.Popen(words, env={**os.environ, **step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)})
    for rank in range(int(size))
]
until = Path(os.environ.get("SIGNAL_AFTER", "/nowhere"))
while any(task.poll() is None for task in tasks):
    if until.exists() and until.stat().st_size:  # the time of the job is nearly over
        until = Path("/nowhere")
        for task in tasks:
            task.send_signal(signal.SIGTERM)
    if any(task.poll() for task in tasks):  # --kill-on-bad-exit
        time.sleep(20)
        for task in tasks:
            task.kill()
    time.sleep(0.02)
sys.exit(max(task.returncode for task in tasks))
"""
"""Starts a task for each of SLURM_NTASKS; sends SIGTERM to all of them once the file SIGNAL_AFTER has content."""

PDSH = """
import subprocess, sys

hosts = sys.argv[sys.argv.index("-w") + 1].split(",")
command = " ".join(sys.argv[sys.argv.index("-w") + 2 :])
shells = [subprocess.Popen(["bash", "-c", command.replace("%n", str(node))]) for node in range(len(hosts))]
sys.exit(max(shell.wait() for shell in shells))
"""
"""Runs a command once for each host of `-w`, with the host's number in the place of `%n`."""


def stand_in(folder: Path, name: str, program: str) -> None:
    """Write a Python program as a command of this name."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!{sys.executable}\n{program}", encoding="utf-8")
    path.chmod(0o755)


def noted(log: Path, code: int = 0) -> str:
    """Return a program that adds its arguments to a file, a line a call, and ends with a code."""
    return f"import sys\nopen({str(log)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\nsys.exit({code})\n"
