"""Steps that the demos share: crawl Python's documentation, train on two processes, read the held-out loss."""

import argparse
import contextlib
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from clozeline.command import stopping_at_signals
from clozeline.errors import ClozelineError, StorageError
from clozeline.files import publish_text
from clozeline.tools.experiments.multirun.runner import (
    RANKS,
    ROOT,
    free_port,
    run_step,
    start_training,
    step_environment,
)
from clozeline.train.logs.json_lines import read_lines


@contextlib.contextmanager
def _serve_pages(port: int) -> Iterator[None]:
    command = ["clozeline", "serve-pydoc", "--port", str(port)]
    print(f"\n$ {shlex.join(command)} &", flush=True)
    program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    with subprocess.Popen(program, cwd=ROOT, env=step_environment(), stdout=subprocess.PIPE, text=True) as server:
        try:
            if server.stdout is None or not (line := server.stdout.readline()):
                raise StorageError(f"the documentation server did not start on port {port}; try again")
            print(line, end="", flush=True)
            yield
        finally:
            server.terminate()


def crawl(folder: Path, pages: int) -> float:
    """Crawl, if needed; the port is stored, so that an interrupted crawl resumes with the same URLs."""
    output, port_file = folder / "pydoc.warc.gz", folder / "port"
    if not port_file.exists():
        publish_text(port_file, f"{free_port()}\n")
    port = int(port_file.read_text(encoding="utf-8"))
    with contextlib.nullcontext() if output.exists() else _serve_pages(port):
        words = [f"http://127.0.0.1:{port}/", "--output", str(output), "--pages", str(pages), "--delay", "0"]
        return run_step("clozeline", "crawl-site", *words)


def train(output: Path, shards: Path, configuration: str, *overrides: str, steps: int | None = None) -> float:
    """Train on the set `masked_lm` of a pipeline output, on two processes with ZeRO 2; return the seconds.

    `steps` replaces the configured number, with a tenth of it as warmup.
    """
    manifest = shards / "corrupt" / "masked_lm" / "train" / "manifest.json"
    words = [f"data.shards={manifest}", f"output={output}", "zero.stage=2", *overrides]
    if steps is not None:
        words += [f"steps={steps}", f"schedule.warmup={steps // 10}"]
    return start_training(RANKS, configuration, *words)


def heldout_result(run: Path) -> dict[str, Any]:
    """Return the last held-out evaluation in a run's metrics; StorageError if there is none."""
    evaluated = [record["heldout"] for record in read_lines(run / "metrics.jsonl") if record.get("heldout")]
    if not evaluated:
        raise StorageError(f"{run / 'metrics.jsonl'}: no held-out evaluation; remove {run} and train again")
    return dict(next(iter(evaluated[-1].values())))


def run_chain(
    name: str, description: str | None, chain: Callable[[Path, int, int | None], None], arguments: Sequence[str] | None
) -> int:
    """Run a chain of steps as a command; return the exit code of the step that failed, or 0.

    `chain` gets the output folder, the maximum number of pages, and the training steps if given.
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
        with stopping_at_signals():
            chain(output, options.pages, options.steps)
    except ClozelineError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command resumes", file=sys.stderr)
        return 75
    return 0
