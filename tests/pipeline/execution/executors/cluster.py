"""A stand-in for Slurm's commands: tasks run in the process of the first `squeue` after their
submission.

`CLUSTER` in the environment is a folder for its jobs, its log `calls`, and `facts.json`: `ends`
says which tasks end without having run (`{"1_0": "CANCELLED"}`), `room` how many may wait or run at
a time.
"""

import contextlib
import json
import os
import shlex
import sys
from pathlib import Path

ROOT = Path(__file__).parents[4]
COMMANDS = ("sbatch", "squeue", "scancel")
MOST_TASKS = 2


def install(folder, monkeypatch, ends=None, room=100):
    """Put the stand-ins first on PATH; return the folder of the cluster."""
    (folder / "bin").mkdir(parents=True)

    for name in COMMANDS:
        script = folder / "bin" / name
        script.write_text(
            f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} {__file__} {name} "$@"\n'
        )
        script.chmod(0o755)

    (folder / "facts.json").write_text(json.dumps({"ends": ends or {}, "room": room}))
    monkeypatch.setenv("CLUSTER", str(folder))
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return folder


def run(cluster, command, words):
    options = dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))
    tasks = 1 + int((options.get("array") or "0").partition("%")[0].removeprefix("0-"))
    if tasks > MOST_TASKS:
        sys.exit("sbatch: error: Batch job submission failed: Invalid job array specification")
    with (cluster / "calls").open("a") as calls:
        calls.write(" ".join([command, *words]) + "\n")
    jobs = {path.stem: json.loads(path.read_text()) for path in sorted(cluster.glob("*.job"))}
    facts = json.loads((cluster / "facts.json").read_text())

    if command == "sbatch":
        waiting = [state for job in jobs.values() for state in job["states"] if state == "PENDING"]
        if tasks + len(waiting) > facts["room"]:
            sys.exit("sbatch: error: QOSMaxSubmitJobPerUserLimit")

        job = {**options, "script": Path(words[-2]).read_text(), "first": words[-1]}
        job["states"] = ["PENDING"] * tasks
        (cluster / f"{len(jobs) + 1}.job").write_text(json.dumps(job))
        print(len(jobs) + 1)
    else:
        for number, job in jobs.items():
            if options.get("name", job["job-name"]) != job["job-name"]:
                continue
            for task, state in enumerate(job["states"]):
                if (
                    command == "scancel"
                    and state == "PENDING"
                    and ("name" in options or number in words)
                ):
                    job["states"][task] = "CANCELLED"
                elif command == "squeue":
                    print(f"{number}|{task}|{state}")
                    if state == "PENDING":  # it has ended at the next look
                        end = facts["ends"].get(f"{number}_{task}")
                        job["states"][task] = end or run_task(job, number, task)

            (cluster / f"{number}.job").write_text(json.dumps(job))


def run_task(job, number, task):
    from clozeline.pipeline.execution.executors.slurm import main

    file = shlex.split(job["script"])[-2]
    log = Path(job["output"].replace("%A", number).replace("%a", str(task)))
    with log.open("w") as output, contextlib.redirect_stdout(output):
        os.environ["SLURM_ARRAY_TASK_ID"] = str(task)
        return "FAILED" if main([file, job["first"]]) else "COMPLETED"


if __name__ == "__main__":
    run(Path(os.environ["CLUSTER"]), sys.argv[1], sys.argv[2:])
