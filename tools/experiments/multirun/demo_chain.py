"""Steps that the demos share: write Python's documentation, train on two processes, read the held-out loss."""

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clozeline.command import stopping_at_signals
from clozeline.errors import ClozelineError, StorageError
from clozeline.tools.experiments.multirun.runner import RANKS, ROOT, run_step, start_training
from clozeline.train.logs.json_lines import read_lines


def write_pages(warc: Path) -> float:
    """Write Python's documentation as a WARC, unless it is there; return the seconds."""
    if warc.exists():
        return 0.0
    # pages show sets, whose order follows the seed
    words: list[str | Path] = ["python", "-m", "clozeline.tools.experiments.multirun.python_pages", warc]
    return run_step(*words, variables={"PYTHONHASHSEED": "0"})


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
    name: str, description: str | None, chain: Callable[[Path, int | None], None], arguments: Sequence[str] | None
) -> int:
    """Run a chain of steps as a command; return the exit code of the step that failed, or 0.

    `chain` gets the output folder, and the training steps if given.
    """
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("runs") / name, help="folder of all files (%(default)s)")
    parser.add_argument("--steps", type=int, help="training steps (default: the configuration's)")
    options = parser.parse_args(arguments)
    output = options.output
    if Path.cwd() != ROOT:
        output = output.resolve()
        print(f"$ cd {shlex.quote(str(ROOT))}")
    try:
        with stopping_at_signals():
            chain(output, options.steps)
    except ClozelineError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{name}: stopped; the same command resumes", file=sys.stderr)
        return 75
    return 0
