"""Time of a fine-tuning step against the Hugging Face Trainer, on the same model, weights, rows and order.

    python benchmarks/finetune.py TRAIN.tsv [--steps 20] [--repeats 3] [--dim 256] [--layers 4] [--json FILE]

TRAIN is a file of SST-2. A BERT of the given size, with new weights and WordPiece of its texts, is written by
transformers; both sides begin with it, and with the same head. Both learn the rows of our stream, batch for batch, with
the same AdamW, rate, clipping and dropout, in fp32 on one thread. The Hugging Face Trainer pads a batch to its longest
row; ours takes micro-batches of rows of about one length (`data.length_buckets`), and sums their gradients. Before the
clock starts both train without dropout, and the losses of all steps must agree. They run in turns, in one process; CPU
time of all threads is the judge, between the ends of steps.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
import transformers
from trainer import RENDEZVOUS, SKIPPED, Clock, Ticking

import train.run
from pipeline.config import config_file, load_config
from pipeline.shards import open_shards
from tools.lib.small_bert import small_vocabulary
from train.config import TrainConfig
from train.distributed import World, start
from train.logs.journal import read_lines
from train.logs.recorder import Recorder
from train.loop import Run
from train.stream.stream import Stream

TARGET = 0.9
BATCH = 32
RATE = 1e-4
AGREEMENT = 1e-4
"""Largest difference of the losses of a step, in nats, without dropout."""
HEAD = {"dense": "bert.pooler.dense", "out": "classifier"}
"""Linear maps of our head, and what transformers calls them."""


@dataclass
class Taken:
    """Facts of our side: the initial weights of its head, the ends of its steps, and their losses."""

    clock: Clock = field(default_factory=Clock)
    head: dict[str, torch.Tensor] = field(default_factory=dict)
    losses: list[float] = field(default_factory=list)


def publish(folder: Path, text: str, dim: int, layers: int, dropout: float) -> None:
    """Write a BERT and its tokenizer as transformers does."""
    folder.mkdir()
    pieces = small_vocabulary(text, 8192)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    transformers.BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=True).save_pretrained(folder)
    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=len(pieces), hidden_size=dim, num_hidden_layers=layers, num_attention_heads=dim // 64,
        intermediate_size=4 * dim, max_position_embeddings=128, hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )  # fmt: skip
    transformers.BertForMaskedLM(config).save_pretrained(folder)


def make_set(train_file: Path, model: Path, output: Path) -> Path:
    """Make the rows of the task with the tokenizer of the model."""
    words = [f"input=[{{path: {train_file}, source: train}}]", f"tokenizer.path={model}", f"output={output}"]
    command = [sys.executable, "-m", "pipeline.tasks", "--config", "recipe:tasks/sst2", *words]
    subprocess.run(command, check=True, cwd=Path(__file__).resolve().parent.parent, stdout=subprocess.DEVNULL)
    return output / "tasks" / "sst2" / "train" / "manifest.json"


def our_words(model: Path, shards: Path, output: Path, steps: int, dropout: float) -> list[str]:
    """Settings of our side, beside those of the recipe."""
    return [
        f"model.init_from={model}", f"data.shards={shards}", f"output={output}", f"steps={steps}",
        f"data.global_batch={BATCH}", "data.micro_batch=8", f"optimizer.learning_rate={RATE}",
        "schedule={name: constant}", f"model.heads.classification.dropout={dropout}", "evaluate.every=null",
        "checkpoint.every=null", "log.tensorboard=false", "zero.stage=0", "resume=never", "log.every=1",
    ]  # fmt: skip


@contextlib.contextmanager
def watched(taken: Taken) -> Iterator[None]:
    """Note the initial head and the end of each step of a run of ours."""
    record, begin = Recorder.step, train.run.train

    def record_and_tick(*arguments: Any, **options: Any) -> None:
        record(*arguments, **options)
        taken.clock.tick()

    def begin_with(run: Run, state: Any) -> Any:
        for name, value in run.engine.model.state_dict().items():
            if name.startswith("heads.classification.classifier."):
                taken.head[name.removeprefix("heads.classification.classifier.")] = value.clone()
        return begin(run, state)

    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, patch.object(Recorder, "step", record_and_tick), patch.object(train.run, "train", begin_with):
        yield


def ours(config: TrainConfig, world: World) -> Taken:
    """Train with our trainer."""
    taken = Taken()
    with watched(taken):
        train.run.run(config, joined=world)
    taken.losses = [line["loss"] for line in read_lines(Path(config.output) / "metrics.jsonl")]
    return taken


def rows_of(config: TrainConfig, steps: int) -> list[dict[str, Any]]:
    """The rows of our stream in its order, as the examples of a data set of transformers."""
    data = config.data
    assert data.shards is not None
    stream = Stream(
        open_shards(data.first_set), rank=0, world_size=1, seed=data.seed, lanes=data.lane_count,
        global_batch=BATCH, micro_batch=BATCH,
    )  # fmt: skip
    rows = []
    for _ in range(steps):
        (batch,) = stream.next_step()
        tensors = batch.tensors
        for ids, length, label in zip(tensors["input_ids"], tensors["lengths"], tensors["label"], strict=True):
            rows.append({"input_ids": ids[:length].tolist(), "label": int(label)})
    stream.close()
    return rows


class Noting(transformers.TrainerCallback):
    """The loss of each step of the Hugging Face Trainer."""

    def __init__(self) -> None:
        self.losses: list[float] = []

    def on_log(self, *_: Any, logs: Mapping[str, float], **__: Any) -> None:
        """Keep the loss of a step."""
        if "loss" in logs:
            self.losses.append(logs["loss"])


def theirs(model: Path, config: TrainConfig, rows: list[dict[str, Any]], head: Mapping[str, torch.Tensor]) -> Taken:
    """Train with the Hugging Face Trainer, from the same body and head."""
    peer = transformers.BertForSequenceClassification.from_pretrained(model, num_labels=2)
    with torch.no_grad():
        for name, value in head.items():
            part, _, kind = name.partition(".")
            peer.get_parameter(f"{HEAD[part]}.{kind}").copy_(value)
    options, taken, noting = config.optimizer.options, Taken(), Noting()
    for name in RENDEZVOUS:
        os.environ.pop(name, None)  # with them the Trainer would put torch's DDP around the model
    arguments = transformers.TrainingArguments(
        output_dir=str(config.output / "peer"), per_device_train_batch_size=BATCH, max_steps=config.steps,
        learning_rate=options.learning_rate, weight_decay=options.weight_decay, adam_beta1=options.betas[0],
        adam_beta2=options.betas[1], adam_epsilon=options.eps, optim="adamw_torch_fused",
        max_grad_norm=config.gradient_clipping, lr_scheduler_type="constant",
        train_sampling_strategy="sequential", logging_steps=1, save_strategy="no", report_to="none",
        disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    trainer = transformers.Trainer(
        model=peer,
        args=arguments,
        train_dataset=rows,
        data_collator=transformers.DataCollatorWithPadding(tokenizer),
        callbacks=[Ticking(taken.clock), noting],
    )
    with contextlib.redirect_stdout(io.StringIO()):
        trainer.train()
    taken.losses = noting.losses
    return taken


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Compare the losses without dropout, then the time with it."""
    transformers.logging.set_verbosity_error()
    text, world = options.train.read_text(encoding="utf-8"), start()
    models = {dropout: folder / f"bert-{dropout}" for dropout in (0.0, 0.1)}
    for dropout, model in models.items():
        publish(model, text, options.dim, options.layers, dropout)
    shards = make_set(options.train.resolve(), models[0.0], folder / "sets")
    recipe = config_file("recipe:tasks/sst2", "train.yaml")

    def pair(dropout: float, steps: int, name: str) -> tuple[Taken, Taken]:
        words = our_words(models[dropout], shards, folder / name, steps, dropout)
        config = load_config(TrainConfig, recipe, words)
        mine = ours(config, world)
        with patch.dict(os.environ):
            return mine, theirs(models[dropout], config, rows_of(config, steps), mine.head)

    mine, peer = pair(0.0, SKIPPED + 4, "agree")
    apart = max(abs(one - other) for one, other in zip(mine.losses, peer.losses, strict=True))
    if apart > AGREEMENT:
        raise SystemExit(f"the losses differ by {apart:.2g} nats: the two sides do not train the same")
    rounds = [pair(0.1, options.steps, str(number)) for number in range(options.repeats)]
    world.shutdown()
    times = [[side.clock.milliseconds()[0] for side in pair] for pair in rounds]
    ratios = [mine / other for mine, other in times]
    cpu, peer_cpu = (median(side) for side in zip(*times, strict=True))
    return {
        "case": "fine-tuning step, CPU", "ours": cpu, "peer": peer_cpu, "peer_name": "Hugging Face Trainer",
        "ratio": median(ratios), "low": min(ratios), "high": max(ratios), "unit": "ms", "target": TARGET,
        "holds": median(ratios) <= TARGET, "losses_apart": apart,
    }  # fmt: skip


def main() -> int:
    """Measure, print and write; exit code 1 if the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path, metavar="TRAIN.tsv")
    for name, default in (("steps", 20), ("repeats", 3), ("dim", 256), ("layers", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        found = measure(options, Path(temporary))
    print(
        f"ours {found['ours']:.0f} ms, Hugging Face Trainer {found['peer']:.0f} ms of CPU a step: ratio "
        f"{found['ratio']:.2f}, {found['low']:.2f} to {found['high']:.2f} ({TARGET} asked); losses without dropout "
        f"differ by {found['losses_apart']:.1e}; load {', '.join(f'{load:.1f}' for load in os.getloadavg())}"
    )
    if options.json:
        options.json.write_text(json.dumps([found], indent=1) + "\n", encoding="utf-8")
    return int(not found["holds"])


if __name__ == "__main__":
    raise SystemExit(main())
