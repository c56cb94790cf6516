"""Time of a trainer's step against two other loops over the same batches: bare torch, and the Hugging Face Trainer.

    python benchmarks/trainer.py [--steps 44] [--repeats 5] [--json FILE]

One rank, stage 1, fp32, an encoder of 4 million parameters, four micro-batches a step: what stream, engine, records and
logs cost. All three train our model with the same fused AdamW, learning rate and clipping. The two others have their
batches in memory; the Hugging Face Trainer logs each step as ours does, the bare loop nothing. They run in turns, in
one process on one thread. CPU time is the judge, that of all threads, between the ends of steps. The medians of the
rounds are compared, with the range of their ratios. Of the wall clock the fastest rounds are given, because a neighbour
on the machine can only slow a run down.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers
from rich.console import Console
from rich.table import Table
from zero_stages import LENGTH, write_shards, write_training

from model.build import build_model
from pipeline.config import load_config
from pipeline.shards import open_shards
from train.config import TrainConfig
from train.distributed import World, start
from train.logs.journal import read_lines
from train.logs.recorder import Recorder
from train.run import run
from train.stream.collate import Batch
from train.stream.stream import Stream
from train.weights.parameter_groups import parameter_groups

BARE_TARGET = 1.10
RENDEZVOUS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that our start sets; with them the Hugging Face Trainer would put torch's DDP around the model."""
SKIPPED = 4
"""First steps of each run, which allocate."""


@dataclass
class Clock:
    """CPU and wall seconds at the end of each step."""

    ends: list[tuple[float, float]] = field(default_factory=list)

    def tick(self) -> None:
        """Note the end of a step."""
        self.ends.append((time.process_time(), time.perf_counter()))

    def milliseconds(self) -> tuple[float, float]:
        """Mean CPU and wall milliseconds of a step, after the first ones."""
        (cpu, wall), (last_cpu, last_wall) = self.ends[SKIPPED - 1], self.ends[-1]
        steps = len(self.ends) - SKIPPED
        return (last_cpu - cpu) * 1e3 / steps, (last_wall - wall) * 1e3 / steps


def in_memory(config: TrainConfig, steps: int) -> tuple[Any, list[list[Batch]]]:
    """Our model, and the micro-batches of each step."""
    shards = open_shards(config.data.shards)
    data = config.data
    stream = Stream(
        shards, rank=0, world_size=1, seed=0, lanes=8, global_batch=data.global_batch, micro_batch=data.micro_batch
    )
    batches = [list(stream.next_step()) for _ in range(steps)]
    stream.close()
    facts = shards.manifest.tokenizer
    return build_model(config.model, facts.vocab_size, facts.special_ids), batches


def bare_loop(config: TrainConfig, steps: int) -> tuple[float, float]:
    """A step without any of our machinery."""
    model, batches = in_memory(config, steps)
    optimizer = config.optimizer.build().build(parameter_groups(model, config.optimizer.options.weight_decay))
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


class Averaging(torch.nn.Module):
    """Our model as the Hugging Face Trainer calls one: features by name in, the mean loss out."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, **tensors: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the mean loss of a micro-batch."""
        loss = self.model(tensors)["masked_lm"]
        return {"loss": loss.total / loss.count}


class Ticking(transformers.TrainerCallback):
    """Ticks the clock after each step of the Hugging Face Trainer."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the end of a step."""
        self.clock.tick()


def first(batches: Sequence[Mapping[str, torch.Tensor]]) -> Mapping[str, torch.Tensor]:
    """The only entry: a micro-batch is collated already."""
    (batch,) = batches
    return batch


def other_trainer(config: TrainConfig, folder: Path, steps: int) -> tuple[float, float]:
    """A step of the Hugging Face Trainer."""
    model, batches = in_memory(config, steps)
    options = config.optimizer.options
    clock = Clock()
    arguments = transformers.TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=1,
        gradient_accumulation_steps=len(batches[0]),
        max_steps=steps,
        learning_rate=options.learning_rate,
        weight_decay=options.weight_decay,
        adam_beta1=options.betas[0],
        adam_beta2=options.betas[1],
        adam_epsilon=options.eps,
        optim="adamw_torch_fused",
        max_grad_norm=config.gradient_clipping,
        warmup_steps=config.schedule.options.warmup,
        train_sampling_strategy="sequential",
        remove_unused_columns=False,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = transformers.Trainer(
        model=Averaging(model),
        args=arguments,
        train_dataset=[batch.tensors for step in batches for batch in step],
        data_collator=first,
        callbacks=[Ticking(clock)],
    )
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    return clock.milliseconds()


def our_trainer(config: Path, overrides: list[str], world: World) -> tuple[float, float, float]:
    """A step of ours, and the milliseconds that the median one waits for data."""
    loaded = load_config(TrainConfig, config, overrides)
    clock = Clock()
    record: Callable[..., None] = Recorder.step

    def record_and_tick(*arguments: Any, **options: Any) -> None:
        record(*arguments, **options)
        clock.tick()

    with contextlib.redirect_stdout(io.StringIO()), patch.object(Recorder, "step", record_and_tick):
        run(loaded, joined=world)
    records = read_lines(Path(loaded.output) / "metrics.jsonl")
    return *clock.milliseconds(), median(line["step_ms"]["data"] for line in records[SKIPPED:])


def measure(steps: int, repeats: int) -> list[dict[str, Any]]:
    """All loops in turns."""
    transformers.logging.set_verbosity_error()
    world = start()
    ours, bare, other, data = [], [], [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shards = write_shards(folder, rows=1024)
        model = {"dim": 256, "layers": 4, "attention_heads": 4, "ffn_dim": 1024, "position": {"maximum": LENGTH}}
        model |= {"family": "encoder", "heads": {"masked_lm": 1.0}}
        config = write_training(folder / "train.yaml", model=model, schedule={"name": "linear", "warmup": SKIPPED})
        for repeat in range(repeats):
            overrides = [f"data.shards={shards}", f"output={folder / str(repeat)}", f"steps={steps}", "resume=never"]
            loaded = load_config(TrainConfig, config, overrides)
            *step, waited = our_trainer(config, overrides, world)
            ours.append(step)
            data.append(waited)
            bare.append(bare_loop(loaded, steps))
            with patch.dict(os.environ):
                for name in RENDEZVOUS:
                    del os.environ[name]
                other.append(other_trainer(loaded, folder / "other", steps))
    world.shutdown()
    waiting = min(data)
    wall = min(wall for _, wall in ours)
    return [
        *compared(ours, bare, "bare torch loop", BARE_TARGET),
        *compared(ours, other, "Hugging Face Trainer", math.inf),
        row("waiting for data", waiting, wall, "wall of a step", waiting / wall, "<= 0.02 x", 0.02),
    ]


def compared(
    ours: Sequence[Sequence[float]], peer: Sequence[Sequence[float]], name: str, target: float
) -> list[dict[str, Any]]:
    """CPU with the range of the rounds, and the fastest wall clock."""
    ratios = [mine[0] / other[0] for mine, other in zip(ours, peer, strict=True)]
    cpu, peer_cpu = (median(step[0] for step in side) for side in (ours, peer))
    wall, peer_wall = (min(step[1] for step in side) for side in (ours, peer))
    bound = f"<= {target} x" if target < math.inf else "-"
    rounds = f"{name}, {min(ratios):.2f} to {max(ratios):.2f}"
    return [
        row("CPU of a step", cpu, peer_cpu, rounds, median(ratios), bound, target),
        row("wall of a step", wall, peer_wall, name, wall / peer_wall, "-", math.inf),
    ]


def row(case: str, ours: float, peer: float, peer_name: str, ratio: float, target: str, bar: float) -> dict[str, Any]:
    """A row of the result."""
    figures = {"case": case, "ours": ours, "peer": peer, "peer_name": peer_name, "ratio": ratio}
    return {**figures, "unit": "ms", "target": target, "holds": ratio <= bar}


def main() -> None:
    """Run, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=44)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = measure(options.steps, options.repeats)
    table = Table(title="trainer's step, 1 rank, ZeRO 1, fp32, 4 M parameters")
    for name in ("case", "ours", "peer", "peer_name", "ratio", "target", "holds"):
        table.add_column(name)
    for found in rows:
        figures = [f"{found[name]:.3f}" for name in ("ours", "peer")]
        verdict = "yes" if found["holds"] else "NO"
        table.add_row(found["case"], *figures, found["peer_name"], f"{found['ratio']:.3f}", found["target"], verdict)
    Console(width=130).print(table)
    print(f"load {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    sys.exit(0 if all(found["holds"] for found in rows) else 1)


if __name__ == "__main__":
    main()
