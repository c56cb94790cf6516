"""Speed of teaching: the scores of a teacher as columns, compared with its evaluation.

    python -m benchmarks.teaching [--dim 256] [--layers 12] [--repeats 9] [--rows 480] [--json FILE]

A BERT-like encoder with random weights and 8,192 ids. Its scores are stored with the best 16 classes and with 16 draws,
in turn with the trainer's evaluation on the same rows of 64 tokens, in batches of 32, on one thread and in one process.
All read the rows from their shards; teaching also writes the column set. Times are CPU time of the process, which other
programs on the machine disturb less.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.harness import Claim, finish, parser, print_table, take_turns

import torch

from benchmarks.zero_stages import write_shards as write_rows
from benchmarks.zero_stages import write_training
from clozeline.configuration.config import load_config
from clozeline.pipeline.shards import open_shards
from clozeline.tools.models.teaching.score_shards import Task, Worker, write_shards
from clozeline.tools.runs.inference.teacher_scores import plan_scores
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.distributed.process_group import start
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine
from clozeline.train.evaluate import evaluate, open_heldout
from clozeline.train.run import run
from clozeline.train.startup.teacher_model import open_teacher

VOCABULARY, K = 8192, 16


def measure_teaching(folder: Path, dim: int, layers: int, rows: int, repeats: int) -> dict[str, list[float]]:
    """Return the seconds of evaluations of a teacher on a set, and of teaching it with the best classes and draws."""
    path, world = write_rows(folder, rows, VOCABULARY), start()
    body = {"family": "encoder", "dim": dim, "layers": layers, "attention_heads": dim // 64, "ffn_dim": 4 * dim}
    training = write_training(
        folder / "train.yaml", model={**body, "heads": {"masked_lm": 1.0}, "position": {"maximum": 64}},
        data={"shards": str(path), "heldout": str(path), "global_batch": 32, "micro_batch": 32, "lanes": 8},
        schedule={"name": "constant"}, steps=1, evaluate={"max_rows": 0}, output=str(folder / "teacher"),
    )  # fmt: skip
    run(load_config(TrainConfig, training, []), joined=world)
    config = load_config(TrainConfig, training, ["evaluate.max_rows=null"])
    shards = open_shards(path)
    weights = open_teacher(folder / "teacher", None, shards, "RUN")
    with ExitStack() as resources:
        engine = Engine(weights.build(VOCABULARY), config, world)
        (heldout,) = open_heldout(config, open_datasets(config), world, resources)
        stop, watchdog = resources.enter_context(StopRequest()), resources.enter_context(Watchdog(0.0))
        teachers = {}
        for how in ("top", "drawn"):
            stored = plan_scores(weights, shards, None, K, how, 1.0, 0)
            teachers[how] = Worker(Task(folder / "teacher", path, folder / how, stored))

        def teach(worker: Worker) -> None:
            for block in range(len(shards.index)):
                worker.score(block)
            list(write_shards(worker.task, shards, 1))  # joins the blocks
            shutil.rmtree(worker.task.output)

        works: dict[str, Callable[[], object]] = {"evaluation": lambda: evaluate(engine, heldout, watchdog, stop)}
        works |= {how: (lambda own=worker: teach(own)) for how, worker in teachers.items()}
        seconds = take_turns(works, repeats)
        engine.close()
    world.shutdown()
    return seconds


def main() -> int:
    args = parser(__doc__, dim=256, layers=12, repeats=9, rows=480).parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        taught = measure_teaching(Path(temporary), args.dim, args.layers, args.rows, args.repeats)
    speeds = {name: args.rows / median(values) for name, values in taught.items()}
    ratios = {how: median(a / b for a, b in zip(taught["evaluation"], taught[how], strict=True)) for how in taught}
    print_table(
        ["pass over the rows", "rows a second", "compared with evaluation"],
        [[name, f"{speed:.1f}", f"{ratios[name]:.2f}"] for name, speed in speeds.items()],
    )
    claims = [
        Claim(f"teaching, how={how}, at least 0.9 x", "speed", ratios[how], 1.0, "evaluation", 0.9, more=True)
        for how in ("top", "drawn")
    ]
    return finish(claims, args.json)


if __name__ == "__main__":
    sys.exit(main())
