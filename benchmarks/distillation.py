"""Time of a student's step: without a teacher, with stored scores, and with a live teacher; and time of teaching.

    python -m benchmarks.distillation [--dim 256] [--layers 12] [--tokens 128] [--repeats 9] [--rows 480] [--json FILE]

BERT-like encoders with random weights and 8,192 ids; the student has half the layers of the teacher. A step is forward,
backward and AdamW on 16 rows, 15 % of them labels, on one thread. The three students take turns in one process; reading
the data is not timed.

Teaching is compared with the trainer's evaluation of the teacher on the same rows of 64 tokens, in batches of 32, in
turn, on one thread and in one process. Both read the rows from their shards; teaching also writes the column set.

All times are CPU time of the process, which other programs on the machine disturb less.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from benchmarks.harness import Claim, finish, parser, print_table

import torch
from torch import Tensor

from benchmarks.zero_stages import write_shards as write_rows
from benchmarks.zero_stages import write_training
from clozeline.configuration.config import load_config
from clozeline.model.build import Model, build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards import open_shards
from clozeline.registry import choose
from clozeline.tools.models.teaching.score_shards import Task, Worker, write_shards
from clozeline.tools.runs.inference.teacher_scores import keep_best, plan_scores
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.sets.datasets import open_datasets
from clozeline.train.distillation.student import Student
from clozeline.train.distillation.teacher import Teacher
from clozeline.train.distributed.process_group import start
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.distributed.watchdog import Watchdog
from clozeline.train.engine import Engine
from clozeline.train.evaluate import evaluate, open_heldout
from clozeline.train.run import run
from clozeline.train.startup.teacher_model import open_teacher

VOCABULARY, ROWS, K = 8192, 16, 16


def encoder(dim: int, layers: int) -> Model:
    config = ModelConfig(
        family="encoder", dim=dim, layers=layers, attention_heads=dim // 64, ffn_dim=4 * dim, heads={"masked_lm": 1.0}
    )
    return build_model(config, VOCABULARY, {}, seed=0)


def masked_rows(tokens: int) -> dict[str, Tensor]:
    labels = max(1, tokens * 15 // 100)
    index = (torch.arange(ROWS)[:, None] * tokens + torch.arange(labels)).reshape(-1)
    draw = torch.Generator().manual_seed(0)
    return {
        "input_ids": torch.randint(VOCABULARY, (ROWS, tokens), generator=draw),
        "position_ids": torch.arange(tokens).expand(ROWS, -1),
        "lengths": torch.full((ROWS,), tokens),
        "row_weight": torch.ones(ROWS),
        "label_index": index,
        "label_ids": torch.randint(VOCABULARY, index.shape, generator=draw),
    }


def stepper(model: Model, read: Callable[[], dict[str, Tensor]]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> None:
        losses = model(read())
        torch.stack([loss.total / loss.divisor for loss in losses.values()]).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


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
    shards, seconds = open_shards(path), {"evaluation": [], "top": [], "drawn": []}  # type: dict[str, list[float]]
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
        for repeat in range(repeats + 1):
            for name, work in works.items():
                began = time.process_time()
                work()
                if repeat:
                    seconds[name].append(time.process_time() - began)
        engine.close()
    world.shutdown()
    return seconds


def main() -> int:
    args = parser(__doc__, dim=256, layers=12, tokens=128, repeats=9, rows=480).parse_args()
    torch.set_num_threads(1)
    batch, size = masked_rows(args.tokens), args.layers // 2
    scores = choose("clozeline.train.distillation.losses", "scores")
    source = encoder(args.dim, args.layers)
    live = Student(encoder(args.dim, size), [scores], source.config)
    teacher = Teacher(source, live.needed_of_teacher)
    ids, weights = keep_best(teacher(batch)["teacher_logits_masked_lm"], K, 1.0)
    stored = {**batch, "teacher_ids": ids, "teacher_weights": weights.half().float()}
    steps = {
        "without": stepper(encoder(args.dim, size), lambda: batch),
        "stored": stepper(Student(encoder(args.dim, size), [scores], None), lambda: stored),
        "live": stepper(live, lambda: {**batch, **teacher(batch)}),
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for repeat in range(args.repeats + 1):
        for name, step in steps.items():
            start = time.process_time()
            step()
            if repeat:  # the first step of each allocates
                seconds[name].append(time.process_time() - start)
    medians = {name: median(values) for name, values in seconds.items()}
    print_table(
        ["student", "step", "compared with stored"],
        [[name, f"{1000 * own:.0f} ms", f"{own / medians['stored']:.2f}"] for name, own in medians.items()],
    )
    with tempfile.TemporaryDirectory() as temporary:
        taught = measure_teaching(Path(temporary), args.dim, args.layers, args.rows, args.repeats)
    speeds = {name: args.rows / median(values) for name, values in taught.items()}
    ratios = {how: median(a / b for a, b in zip(taught["evaluation"], taught[how], strict=True)) for how in taught}
    print_table(
        ["pass over the rows", "rows a second", "compared with evaluation"],
        [[name, f"{speed:.1f}", f"{ratios[name]:.2f}"] for name, speed in speeds.items()],
    )
    own = 1000 * medians["stored"]
    claims = [
        Claim("step with stored scores, at most 1.15 x", "ms", own, 1000 * medians["without"], "without", 1 / 1.15),
        Claim("step with stored scores, 1.5 x faster", "ms", own, 1000 * medians["live"], "a live teacher", 1.5),
        *(Claim(f"teaching, how={how}, at least 0.9 x", "speed", ratios[how], 1.0, "evaluation", 0.9, more=True)
          for how in ("top", "drawn")),
    ]  # fmt: skip
    return finish(claims, args.json)


if __name__ == "__main__":
    sys.exit(main())
