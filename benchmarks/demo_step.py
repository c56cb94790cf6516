"""Where the time of a step of the demo's model goes, part by part, and the share of its records.

    python -m benchmarks.demo_step [--steps 240] [--shards MANIFEST] [--json FILE]

One rank and one thread train `recipe:demo`, with a record of each step in `metrics.jsonl`, `status.json` and
TensorBoard; the demo itself splits the same step over two ranks. Without MANIFEST, the demo's pipeline makes the shards
of the texts of `benchmarks/corpus_size.py`. The parts are wall times by the trainer's own clock, on average over the
steps after the first 40. The share is CPU time: of the recorder and of TensorBoard's thread, compared with all threads.
"""

import contextlib
import io
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import mean
from typing import Any
from unittest.mock import patch

from benchmarks.harness import figure, parser, print_table, system_load, verdict, write_json

import torch
from tensorboard.summary.writer.event_file_writer import _AsyncWriterThread

from benchmarks.corpus_size import write_texts
from clozeline.configuration.config import config_file, load_config
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.logs.recorder import Recorder
from clozeline.train.run import run

MOST_SHARE = 0.01
"""Largest share of a step's CPU time that its records may take."""
SKIPPED = 40
"""First steps of the run, which allocate."""
TEXT_BYTES = 1_000_000


class Costs:
    """CPU seconds of the process at the end of each step, and CPU and wall seconds of its records."""

    def __init__(self) -> None:
        self.ends: list[float] = []
        self.cpu: list[float] = []
        self.wall: list[float] = []
        self.board = 0.0
        """CPU seconds of TensorBoard's thread over the entire run"""

    @contextlib.contextmanager
    def count(self) -> Iterator[None]:
        """Count while a run trains."""
        record, write = Recorder.step, _AsyncWriterThread.run

        def count_record(*arguments: Any, **options: Any) -> None:
            cpu, wall = time.thread_time(), time.perf_counter()
            record(*arguments, **options)
            self.cpu.append(time.thread_time() - cpu)
            self.wall.append(time.perf_counter() - wall)
            self.ends.append(time.process_time())

        def count_board(thread: _AsyncWriterThread) -> None:
            write(thread)
            self.board += time.thread_time()

        with patch.object(Recorder, "step", count_record), patch.object(_AsyncWriterThread, "run", count_board):
            yield


def write_shards(folder: Path) -> Path:
    """Run the demo's pipeline on texts that need no crawl; return the manifest that the demo trains on."""
    write_texts(folder / "texts.jsonl", TEXT_BYTES)
    source, output = folder / "texts.jsonl", folder / "data"
    if code := run_pipeline(["--config", "recipe:demo", "--quiet", f"input={source}", f"output={output}"]):
        raise SystemExit(code)
    return output / "corrupt" / "masked_lm" / "train" / "manifest.json"


def measure(shards: Path, output: Path, steps: int, joined: World | None = None) -> list[dict[str, Any]]:
    """Return a row for each part of a step, and the row of the share."""
    torch.set_num_threads(1)
    overrides = [f"data.shards={shards}", f"output={output}", f"steps={steps}"]
    overrides += ["checkpoint.every=null", "schedule.warmup=0"]  # so that fewer steps are a run too
    config, costs = load_config(TrainConfig, config_file("recipe:demo", "train.yaml"), overrides), Costs()
    with costs.count(), contextlib.redirect_stdout(io.StringIO()):
        run(config, joined)
    records = read_lines(output / "metrics.jsonl")[SKIPPED:]
    parts = {part: mean(record["step_ms"][part] for record in records) for part in records[0]["step_ms"]}
    rest = parts.pop("other") + parts.pop("between")
    parts["records"] = mean(costs.wall[SKIPPED:]) * 1e3
    parts["rest"] = rest - parts["records"]
    step = sum(parts.values())
    rows = [figure(part, "ms", value, step, "step", None, holds=True) for part, value in parts.items()]
    cpu_step = (costs.ends[-1] - costs.ends[SKIPPED - 1]) / (steps - SKIPPED) * 1e3
    cpu = (mean(costs.cpu[SKIPPED:]) + costs.board / steps) * 1e3
    holds = cpu <= MOST_SHARE * cpu_step
    return [*rows, figure("records, CPU time", "ms", cpu, cpu_step, "step, CPU time", MOST_SHARE, holds=holds)]


def main() -> int:
    """Print the parts; the exit code is 1 if the records take too much."""
    options = parser(__doc__, steps=240, shards=(Path, "what `recipe:demo` trains on; default: made here")).parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        rows = measure(options.shards or write_shards(folder), folder / "run", options.steps)
    cells = [
        (row["case"], f"{row['ours']:.3f}", f"{100 * row['ratio']:.2f}", f"{row['peer']:.1f}",
         f"at most {100 * row['target']:g}: {verdict(row['holds'])}" if row["target"] else "")
        for row in rows
    ]  # fmt: skip
    print_table(("part", "ms", "% of the step", "step, ms", "holds"), cells, f"a step of the demo, {system_load()}")
    write_json(options.json, rows)
    return int(not rows[-1]["holds"])


if __name__ == "__main__":
    raise SystemExit(main())
