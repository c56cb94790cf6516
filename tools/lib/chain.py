"""Chains of commands: each is printed as a user would type it, run in the root folder, and timed."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.errors import ClozelineError, StorageError
from pipeline.files import parse_json, publish

__all__ = ["ROOT", "StepFailedError", "crawl", "heldout_result", "run_chain", "run_step", "start_training", "train"]

ROOT: Final = Path(__file__).resolve().parents[2]
_RANKS: Final = 2


class StepFailedError(ClozelineError):
    """A command that ended with an error, which it printed itself."""

    def __init__(self, command: Sequence[str], code: int) -> None:
        super().__init__(f"this command ended with exit code {code}: {shlex.join(command)}")
        self.exit_code = code if code > 0 else 1


def run_step(
    *command: str | Path, accelerator: str | None = "cpu", variables: Mapping[str, str] | None = None
) -> float:
    """Print a command as a user would type it in the root folder, run it, and return its seconds.

    Args:
        command: its words.
        accelerator: `DS_ACCELERATOR` where the environment has none; None: whichever the machine has.
        variables: of the environment, which the step needs to be so.
    """
    arguments, needed = [str(part) for part in command], dict(variables or {})
    print("\n$ " + " ".join([*(f"{key}={value}" for key, value in needed.items()), shlex.join(arguments)]), flush=True)
    began = time.monotonic()
    program = Path(sys.executable).parent / arguments[0]
    code = subprocess.run(
        [str(program), *arguments[1:]], cwd=ROOT, env=_environment(accelerator) | needed, check=False
    ).returncode
    if code:
        raise StepFailedError(arguments, code)
    return time.monotonic() - began


def _environment(accelerator: str | None = "cpu") -> dict[str, str]:
    """Return the environment of a step: our folders and programs first, and threads for a rank's share of the cores."""
    threads = max(1, (os.cpu_count() or _RANKS) // _RANKS)
    defaults = {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    defaults |= {} if accelerator is None else {"DS_ACCELERATOR": accelerator}
    first = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(ROOT)}
    paths = {key: os.pathsep.join(filter(None, [value, os.environ.get(key)])) for key, value in first.items()}
    return {**defaults, **os.environ, **paths}


@contextlib.contextmanager
def _site(port: int) -> Iterator[None]:
    """Run the documentation server as a process of its own while the block runs."""
    command = ["python", "tools/serve_pydoc.py", "--port", str(port)]
    print(f"\n$ {shlex.join(command)} &", flush=True)
    python = [sys.executable, *command[1:]]
    with subprocess.Popen(python, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None or not (line := server.stdout.readline()):
                raise StorageError(f"the documentation server did not start on port {port}; try again")
            print(line, end="", flush=True)
            yield
        finally:
            server.terminate()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def crawl(folder: Path, pages: int) -> float:
    """Crawl, unless that is done; the port is kept, so that an interrupted crawl continues with the same addresses."""
    output, remembered = folder / "pydoc.warc.gz", folder / "port"
    if not remembered.exists():
        with publish(remembered) as temporary:
            temporary.write_text(f"{_free_port()}\n", encoding="utf-8")
    port = int(remembered.read_text(encoding="utf-8"))
    with contextlib.nullcontext() if output.exists() else _site(port):
        address = f"http://127.0.0.1:{port}/"
        return run_step(
            "python", "tools/crawl_site.py", address, "--output", output, "--pages", str(pages), "--delay", "0"
        )


def train(output: Path, shards: Path, configuration: str, *overrides: str, steps: int | None = None) -> float:
    """Train on a set of an output of the pipeline, on two processes with ZeRO 2; return the seconds.

    Args:
        output: run directory.
        shards: output folder of the pipeline, with a set `masked_lm`.
        configuration: file of the training.
        overrides: `key=value`.
        steps: their number, of which a tenth are the warm-up; None: as configured.
    """
    manifest = shards / "corrupt" / "masked_lm" / "train" / "manifest.json"
    words = [f"data.shards={manifest}", f"output={output}", "zero.stage=2", *overrides]
    if steps is not None:
        words += [f"steps={steps}", f"schedule.warmup={steps // 10}"]
    return start_training(_RANKS, configuration, *words)


def start_training(
    ranks: int, configuration: str | Path, *overrides: str, variables: Mapping[str, str] | None = None
) -> float:
    """Train on a number of processes; return the seconds.

    Args:
        ranks: processes; one is started without the launcher.
        configuration: file of the training.
        overrides: `key=value`.
        variables: of the environment, as `run_step` takes them.
    """
    launcher = ["deepspeed", "--num_accelerators", str(ranks), "--master_port", str(_free_port()), "--quiet"]
    start = ["python"] if ranks == 1 else launcher
    return run_step(*start, "train/main.py", "--config", configuration, *overrides, variables=variables)


def heldout_result(run: Path) -> dict[str, Any]:
    """Return the last held-out evaluation in a run's metrics.

    Raises:
        StorageError: there is none.
    """
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [parse_json(line) for line in lines]
    evaluated = [record["heldout"] for record in records if record.get("heldout")]
    if not evaluated:
        raise StorageError(f"{run / 'metrics.jsonl'}: no held-out evaluation; remove {run} and train again")
    return dict(next(iter(evaluated[-1].values())))


def run_chain(
    name: str,
    description: str | None,
    chain: Callable[[Path, int, int | None], None],
    arguments: Sequence[str] | None,
) -> int:
    """Run a chain as a command; return the exit code of the step that failed, or 0.

    Args:
        name: of the chain; its default folder is `runs/NAME`.
        description: docstring of the command, whose first line `--help` shows.
        chain: called with the output folder, the number of pages to crawl, and the training steps if given.
        arguments: words of the command line; None: those of the process.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs") / name, help="folder of all files (%(default)s)")
    parser.add_argument("--pages", type=int, default=1000, help="pages to crawl at most (default %(default)s)")
    parser.add_argument("--steps", type=int, help="training steps (default: the configuration's)")
    options = parser.parse_args(arguments)
    output = options.output
    if Path.cwd() != ROOT:
        output = output.resolve()
        print(f"$ cd {shlex.quote(str(ROOT))}")
    try:
        chain(output, options.pages, options.steps)
    except ClozelineError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command continues", file=sys.stderr)
        return 75
    return 0
