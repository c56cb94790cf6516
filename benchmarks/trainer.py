"""Compare a training step with a torch loop and with the Hugging Face Trainer.

All three take the same batches.

    python -m benchmarks.trainer [--steps 44] [--repeats 5] [--json FILE]

One rank, stage 1, fp32, an encoder of 4 million parameters, four micro-batches a step: the cost of
stream, engine, records and logs. All three train our model with the same fused AdamW, learning rate
and clipping. The other two have their batches in memory; the Hugging Face Trainer logs each step as
ours does, the bare loop nothing. They take turns in one process on one thread. CPU time of all
threads between the ends of steps decides: the medians of the rounds are compared, with the range of
their ratios. Wall times are those of the fastest rounds, because other work on the machine can only
slow a run down. Page faults are those of memory that the C library gave back to the system and
takes again in the next step; which side has more depends on what its process freed before. Our
start makes it keep the memory, for all three here; with `GLIBC_TUNABLES=glibc.malloc.check=0` in
the environment it does not.
"""

import contextlib
import io
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.harness import figure, finish, parser, system_load, temporary_folder

import torch
import transformers

from benchmarks.zero_stages import LENGTH, write_shards, write_training
from clozeline.configuration.config import load_config
from clozeline.model.build import build_model
from clozeline.pipeline.shards import open_shards
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.batches import Batch
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, join_process_group
from clozeline.train.logs.json_lines import read_lines, step_records
from clozeline.train.logs.recorder import Recorder
from clozeline.train.optim.weights.parameter_groups import parameter_groups
from clozeline.train.run import run_training

SMALLEST = "--steps 5 --repeats 1"
BARE_TARGET = 1.03
FAULTS = 100
"""Largest number of page faults in a step."""
RENDEZVOUS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that our start sets; with them the Hugging Face Trainer would wrap the model in torch's
DDP."""
SKIPPED = 4
"""First steps of each run, which allocate."""
Times = tuple[float, float, float]
"""CPU and wall milliseconds of a step, and its page faults."""


class Clock:
    """CPU and wall milliseconds and page faults at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[Times] = []

    def tick(self) -> None:
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        self.ends.append((time.process_time() * 1e3, time.perf_counter() * 1e3, faults))

    def milliseconds(self) -> Times:
        """Return mean CPU and wall milliseconds and page faults of a step, after the first ones."""
        begin = self.ends[SKIPPED - 1]
        steps = len(self.ends) - SKIPPED
        cpu, wall, faults = (
            (last - first) / steps for first, last in zip(begin, self.ends[-1], strict=True)
        )
        return cpu, wall, faults


class Ticking(transformers.TrainerCallback):
    """Ticks after each step of the Hugging Face Trainer."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.clock.tick()


def load_batches(config: TrainConfig) -> tuple[Any, list[list[Batch]]]:
    """Return our model, and the micro-batches of each step."""
    shards = open_shards(config.data.shards)
    data = config.data
    sizes: Any = {"global_batch": data.global_batch, "micro_batch": data.micro_batch}
    stream = Stream(shards, rank=0, world_size=1, seed=0, lanes=8, **sizes)
    batches = [list(stream.next_step()) for _ in range(config.steps)]
    stream.close()
    tokenizer = shards.manifest.tokenizer
    return build_model(config.model, tokenizer.vocab_size, tokenizer.special_ids), batches


def measure_bare_loop(config: TrainConfig) -> Times:
    model, batches = load_batches(config)
    optimizer = config.optimizer.build().build(
        parameter_groups(model, config.optimizer.options.weight_decay)
    )
    clock = Clock()

    for step in batches:
        count = sum(len(batch.tensors["label_ids"]) for batch in step)
        for batch in step:
            (model(batch.tensors)["masked_lm"].total / count).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), config.gradient_clipping)
        optimizer.step()
        optimizer.zero_grad()
        clock.tick()

    return clock.milliseconds()


class MeanLoss(torch.nn.Module):
    """Our model as the Hugging Face Trainer calls one: features by name in, the mean loss out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        loss = self.model(tensors)["masked_lm"]
        return {"loss": loss.total / loss.count}


def measure_transformers(config: TrainConfig, output: Path) -> Times:
    """Run the Hugging Face Trainer with our optimizer, clipping and number of steps."""
    model, batches = load_batches(config)
    options = config.optimizer.options
    clock = Clock()

    with contextlib.redirect_stdout(io.StringIO()), patch.dict(os.environ):
        for name in RENDEZVOUS:
            os.environ.pop(name, None)
        arguments = transformers.TrainingArguments(
            output_dir=str(output),
            max_steps=config.steps,
            learning_rate=options.learning_rate,
            weight_decay=options.weight_decay,
            adam_beta1=options.betas[0],
            adam_beta2=options.betas[1],
            adam_epsilon=options.eps,
            optim="adamw_torch_fused",
            max_grad_norm=config.gradient_clipping,
            warmup_steps=config.schedule.options.warmup,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=len(batches[0]),
            remove_unused_columns=False,
            train_sampling_strategy="sequential",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        rows: Any = [batch.tensors for step in batches for batch in step]
        transformers.Trainer(
            MeanLoss(model),
            arguments,
            lambda batch: batch[0],
            rows,
            callbacks=[Ticking(clock)],
        ).train()

    return clock.milliseconds()


def measure_ours(config: TrainConfig, world: World) -> tuple[Times, float]:
    """Return the times of a step, and the milliseconds that the median step waits for data."""
    clock = Clock()
    record: Callable[..., None] = Recorder.record_step

    def record_and_tick(*arguments: Any, **options: Any) -> None:
        record(*arguments, **options)
        clock.tick()

    with (
        contextlib.redirect_stdout(io.StringIO()),
        patch.object(Recorder, "record_step", record_and_tick),
    ):
        run_training(config, joined=world)
    records = step_records(read_lines(Path(config.output) / "metrics.jsonl"))
    return clock.milliseconds(), median(line["step_ms"]["data"] for line in records[SKIPPED:])


def measure(steps: int, repeats: int) -> list[dict[str, Any]]:
    """Run all loops in turns; return the rows of the table."""
    transformers.logging.set_verbosity_error()
    world = join_process_group()
    ours = []
    bare = []
    other = []
    waits = []

    with temporary_folder() as folder:
        shards = write_shards(folder, rows=1024)
        model = {
            "dim": 256,
            "layers": 4,
            "attention_heads": 4,
            "ffn_dim": 1024,
            "position": {"maximum": LENGTH},
        }

        model |= {"family": "encoder", "heads": {"masked_lm": 1.0}}
        path = write_training(
            folder / "train.yaml", model=model, schedule={"name": "linear", "warmup": SKIPPED}
        )

        for repeat in range(repeats):
            overrides = [
                f"data.shards={shards}",
                f"output={folder / str(repeat)}",
                f"steps={steps}",
                "resume=never",
            ]
            config = load_config(TrainConfig, path, overrides)
            times, wait = measure_ours(config, world)
            ours.append(times)
            waits.append(wait)
            bare.append(measure_bare_loop(config))
            other.append(measure_transformers(config, folder / "other"))

    world.shutdown()
    wait = min(waits)
    wall = min(step[1] for step in ours)
    faults, bare_faults = (median(step[2] for step in side) for side in (ours, bare))
    return [
        *compare(ours, bare, "bare torch loop", BARE_TARGET),
        *compare(ours, other, "Hugging Face Trainer", float("inf")),
        figure(
            "page faults",
            "",
            faults,
            bare_faults,
            "bare torch loop",
            f"<= {FAULTS}",
            holds=faults <= FAULTS,
        ),
        figure(
            "waiting for data",
            "ms",
            wait,
            wall,
            "wall of a step",
            "<= 0.02 x",
            holds=wait <= 0.02 * wall,
        ),
    ]


def compare(
    ours: Sequence[Times], peer: Sequence[Times], name: str, target: float
) -> list[dict[str, Any]]:
    """Return the rows of CPU time, with the range of the rounds, and of the fastest wall time."""
    ratios = [mine[0] / other[0] for mine, other in zip(ours, peer, strict=True)]
    cpu, peer_cpu = (median(step[0] for step in side) for side in (ours, peer))
    wall, peer_wall = (min(step[1] for step in side) for side in (ours, peer))
    bound = f"<= {target} x" if target < float("inf") else "-"
    rounds = f"{name}, {min(ratios):.2f} to {max(ratios):.2f}"
    row = figure(
        "CPU of a step",
        "ms",
        cpu,
        peer_cpu,
        rounds,
        bound,
        holds=median(ratios) <= target,
        ratio=median(ratios),
    )
    return [row, figure("wall of a step", "ms", wall, peer_wall, name)]


def main() -> int:
    """Print the table; the exit code is 1 if a target is missed."""
    options = parser(__doc__, steps=44, repeats=5).parse_args()
    rows = measure(options.steps, options.repeats)
    title = f"trainer's step, 1 rank, ZeRO 1, fp32, 4 M parameters; {system_load()}"
    return finish(rows, options.json, title)


if __name__ == "__main__":
    raise SystemExit(main())
