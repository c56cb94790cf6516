"""Stand-ins for Slurm's commands: a job is kept in a folder, and its tasks run when the queue is first asked for it.

`CLUSTER` in the environment is that folder. `faults.json` there says how tasks end without having run, by job and task:
`{"1_0": "CANCELLED"}`. Tasks with these ends do run: `slow 2` waits so many seconds first, `lost 4` is killed with all
that it started after so many seconds, `full 8` may write no file beyond so many KiB. `accounts: off` makes `sacct`
fail, as on clusters that keep no accounts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "srun", "scontrol")


def install(folder: Path, monkeypatch: Any, faults: Mapping[str, str] | None = None) -> Path:
    """Put the stand-ins first on PATH; return the folder that holds `calls` and the jobs."""
    programs = folder / "bin"
    programs.mkdir(parents=True)
    for name in COMMANDS:
        script = programs / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        script.chmod(0o755)
    (folder / "faults.json").write_text(json.dumps(faults or {}))
    monkeypatch.setenv("CLUSTER", str(folder))
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return folder


def sbatch(folder: Path, arguments: list[str]) -> int:
    job = str(1 + len(list(folder.glob("*.job"))))
    text = Path(arguments[-1]).read_text()
    exports = dict(pair.split("=") for argument in arguments for pair in re.findall(r"\w+=\w+", argument))
    (folder / f"{job}.job").write_text(json.dumps({"script": text, "exports": exports}))
    print(f"Submitted batch job {job}")
    return 0


def squeue(folder: Path, arguments: list[str]) -> int:
    jobs = arguments[arguments.index("--jobs") + 1].split(",")
    waiting = [job for job in jobs if (folder / f"{job}.job").exists() and not (folder / f"{job}.states").exists()]
    for job in waiting:
        (folder / f"{job}.states").write_text(json.dumps(run_tasks(folder, job)))
        print(f"{job}_0")
    if not waiting:
        print("slurm_load_jobs error: Invalid job id specified", file=sys.stderr)
    return not waiting


def run_tasks(folder: Path, job: str) -> dict[str, str]:
    facts = json.loads((folder / f"{job}.job").read_text())
    faults = json.loads((folder / "faults.json").read_text())
    last = int(re.findall(r"#SBATCH --array=0-(\d+)", facts["script"])[0])
    output = re.findall(r"#SBATCH --output=(\S+)", facts["script"])[0]
    script = folder / f"{job}.sh"
    script.write_text(facts["script"])
    states, running = {}, {}
    for task in range(last + 1):
        name = f"{job}_{task}"
        fault, _, amount = faults.get(name, "").partition(" ")
        if fault not in ("", "slow", "lost", "full"):
            states[name] = faults[name]
            continue
        slurm = {"SLURM_ARRAY_TASK_ID": str(task), "SLURM_JOB_ID": job, "SLURM_NODELIST": "node"}
        start = {"slow": f"sleep {amount}; ", "full": f"ulimit -f {amount}; "}.get(fault, "")
        with Path(output.replace("%A", job).replace("%a", str(task))).open("w") as log:
            environment = {**os.environ, **facts["exports"], **slurm}
            command = ["bash", "-c", f"{start}exec bash {script}"]
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
        running[name] = (process, float(amount) if fault == "lost" else None)
    # all tasks run at the same time; the lost ones first, because their time counts from the start
    for name, (process, seconds) in sorted(running.items(), key=lambda task: task[1][1] is None):
        try:
            states[name] = "FAILED" if process.wait(seconds) else "COMPLETED"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            states[name] = "NODE_FAIL"
    return states


def sacct(folder: Path, arguments: list[str]) -> int:
    if "off" in json.loads((folder / "faults.json").read_text()).values():
        return 1
    for job in arguments[arguments.index("--jobs") + 1].split(","):
        if (folder / f"{job}.states").exists():
            for name, state in json.loads((folder / f"{job}.states").read_text()).items():
                print(f"{name}|{state}")
    return 0


def scancel(folder: Path, jobs: list[str]) -> int:
    for job in jobs:
        (folder / f"{job}.states").write_text(json.dumps({f"{job}_0": "CANCELLED by 0"}))
    return 0


def srun(folder: Path, arguments: list[str]) -> int:
    start = next(place for place, word in enumerate(arguments) if word.startswith("/"))
    return subprocess.run(arguments[start:], check=False).returncode


def scontrol(folder: Path, arguments: list[str]) -> int:
    print("localhost")
    return 0


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    place = Path(os.environ["CLUSTER"])
    with (place / "calls").open("a") as calls:
        calls.write(" ".join([name, *rest]) + "\n")
    raise SystemExit(globals()[name](place, rest))
