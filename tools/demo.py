"""Run the whole chain on a real crawl: `make demo`, or `python tools/demo.py --output runs/demo`.

The demo serves Python's reference documentation, crawls it into a WARC file, makes shards, trains a masked language
model on two processes with ZeRO 2, and shows what the model has learnt. Each step is a command that is printed before
it runs. A second demo skips the finished steps.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from pipeline.errors import ClozelineError, StorageError

__all__ = ["clearly_below", "main"]

ROOT: Final = Path(__file__).resolve().parents[1]
RECIPE: Final = "configs/recipes/demo/pipeline.yaml"
TRAINING: Final = "configs/recipes/demo/train.yaml"
RANKS: Final = 2
MARGIN: Final = 0.25
"""Nats by which the held-out loss must be below the unigram entropy to be called clearly below."""
SENTENCES: Final = (
    "If the <mask> is not found, raise an exception.",
    "Return True if the <mask> is empty, False otherwise.",
    "Changed in <mask> 3.8: the new argument was added.",
)


class StepFailedError(ClozelineError):
    """A command of the demo that ended with an error, which it printed itself."""

    def __init__(self, command: Sequence[str], code: int) -> None:
        super().__init__(f"this command ended with exit code {code}: {shlex.join(command)}")
        self.exit_code = code if code > 0 else 1


def clearly_below(loss: float, entropy: float) -> str:
    """Return the verdict on a held-out loss beside the entropy of the same labels."""
    difference = entropy - loss
    if difference >= MARGIN:
        return f"below it by {difference:.2f} nats: the model uses context, not only word frequencies"
    return f"not clearly below it ({difference:+.2f} nats): the model has not learnt to use context"


def _run(*command: str | Path) -> float:
    """Print a command as a user would type it in the root folder, run it, and return its seconds."""
    arguments = [str(part) for part in command]
    print(f"\n$ {shlex.join(arguments)}", flush=True)
    began = time.monotonic()
    program = Path(sys.executable).parent / arguments[0]
    code = subprocess.run([str(program), *arguments[1:]], cwd=ROOT, env=_environment(), check=False).returncode
    if code:
        raise StepFailedError(arguments, code)
    return time.monotonic() - began


def _environment() -> dict[str, str]:
    """Return the environment of a step: our folders and programs first, and threads for a rank's share of the cores."""
    threads = max(1, (os.cpu_count() or RANKS) // RANKS)
    defaults = {"OMP_NUM_THREADS": str(threads), "DS_ACCELERATOR": "cpu", "TOKENIZERS_PARALLELISM": "false"}
    first = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(ROOT)}
    paths = {key: os.pathsep.join(filter(None, [value, os.environ.get(key)])) for key, value in first.items()}
    return {**defaults, **os.environ, **paths}


@contextlib.contextmanager
def _site(port: int) -> Iterator[None]:
    """Run the documentation server as a process of its own while the block runs."""
    command = ["python", "tools/serve_pydoc.py", "--port", str(port)]
    print(f"\n$ {shlex.join(command)} &", flush=True)
    python = [sys.executable, *command[1:]]
    server = subprocess.Popen(python, cwd=ROOT, env=_environment(), stdout=subprocess.PIPE, text=True)
    try:
        if server.stdout is None or not (line := server.stdout.readline()):
            raise StorageError(f"the documentation server did not start on port {port}; try again")
        print(line, end="", flush=True)
        yield
    finally:
        server.terminate()
        server.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _crawl(folder: Path, pages: int) -> float:
    """Crawl, unless that is done; the port is kept, so that an interrupted crawl continues with the same addresses."""
    output, remembered = folder / "pydoc.warc.gz", folder / "port"
    folder.mkdir(parents=True, exist_ok=True)
    if not remembered.exists():
        remembered.write_text(f"{_free_port()}\n", encoding="utf-8")
    port = int(remembered.read_text(encoding="utf-8"))
    with contextlib.nullcontext() if output.exists() else _site(port):
        address = f"http://127.0.0.1:{port}/"
        return _run("python", "tools/crawl_site.py", address, "--output", output, "--pages", str(pages), "--delay", "0")


def _train(output: Path, steps: int | None) -> float:
    shards = output / "shards" / "corrupt" / "masked_lm" / "train" / "manifest.json"
    overrides = [f"data.shards={shards}", f"output={output / 'train'}", "zero.stage=2"]
    if steps is not None:
        overrides.append(f"steps={steps}")
    launcher = ["deepspeed", "--num_accelerators", str(RANKS), "--master_port", str(_free_port()), "--quiet"]
    return _run(*launcher, "train/main.py", "--config", TRAINING, *overrides)


def _heldout(run: Path) -> dict[str, Any]:
    """Return the last held-out evaluation in a run's metrics."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    evaluated = [record["heldout"] for record in records if record.get("heldout")]
    if not evaluated:
        raise StorageError(f"{run / 'metrics.jsonl'}: no held-out evaluation; remove {run} and train again")
    return dict(next(iter(evaluated[-1].values())))


def _demo(output: Path, pages: int, steps: int | None) -> None:
    if Path.cwd() != ROOT:
        print(f"$ cd {shlex.quote(str(ROOT))}")
    seconds = {"crawl": _crawl(output / "crawl", pages)}
    warc, shards, run = output / "crawl" / "pydoc.warc.gz", output / "shards", output / "train"
    overrides = [f"input={warc}", f"output={shards}", "executor.tasks=2"]
    seconds["pipeline"] = _run("python", "-m", "pipeline", "--config", RECIPE, *overrides)
    seconds["train"] = _train(output, steps)
    heldout = _heldout(run)
    loss, entropy = heldout["loss"], heldout["unigram_entropy"]
    print(f"\nheld-out loss                      {loss:.4f} nats")
    print(f"unigram entropy of the same tokens {entropy:.4f} nats   ({heldout['labels']:,} masked tokens)")
    print(f"→ {clearly_below(loss, entropy)}")
    texts = [part for text in SENTENCES for part in ("--text", text)]
    seconds["guesses"] = _run("python", "tools/fill_mask.py", run, "--heldout", "5", *texts)
    print(f"\nreport of the data:     {shards / 'report.html'}")
    print(f"report of the training: {run / 'report.html'}")
    print("seconds: " + ", ".join(f"{name} {value:.0f}" for name, value in seconds.items()), flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code of the step that failed, or 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs/demo"), help="folder of the demo (%(default)s)")
    parser.add_argument("--pages", type=int, default=1000, help="pages to crawl at most (default %(default)s)")
    parser.add_argument("--steps", type=int, help="training steps (default: the recipe's)")
    options = parser.parse_args(arguments)
    output = options.output if Path.cwd() == ROOT else options.output.resolve()
    try:
        _demo(output, options.pages, options.steps)
    except ClozelineError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("demo: stopped; the same command continues", file=sys.stderr)
        return 75
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
