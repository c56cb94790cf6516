"""Time of a fine-tuning step compared with the Hugging Face Trainer, on the same model, weights, rows and order.

    python -m benchmarks.finetune TRAIN.tsv [--steps 20] [--repeats 3] [--dim 256] [--layers 4] [--json FILE]

TRAIN is a file of SST-2. transformers writes a BERT of the given size with new weights, and a WordPiece of its texts;
both sides start from it and from the same head. Both train on the rows of our stream, batch for batch, with the same
AdamW, learning rate, clipping and dropout, in fp32 on one thread. The Hugging Face Trainer pads a batch to its longest
row; ours takes micro-batches of rows of similar lengths (`data.length_buckets`), and sums their gradients. Before the
clock starts both train without dropout, and the losses of all steps must agree. They take turns in one process; CPU
time of all threads between the ends of steps decides.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.harness import ROOT, figure, parser, system_load, write_json

import torch
import transformers

import clozeline.train.run
from benchmarks.trainer import SKIPPED, Clock, Ticking, tick_our_steps, train_with_transformers
from clozeline.configuration.config import config_file, load_config
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun.small_bert import small_vocabulary
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, start
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.loop import Run

TARGET = 0.9
BATCH = 32
RATE = 1e-4
AGREEMENT = 1e-4
"""Largest difference of the losses of a step, in nats, without dropout."""
HEAD = {"dense": "bert.pooler.dense", "out": "classifier"}
"""Linear layers of our head, and their names in transformers."""


@dataclass
class Trained:
    """What a run left: the ends of its steps, their losses, and the initial weights of our head."""

    clock: Clock = field(default_factory=Clock)
    losses: list[float] = field(default_factory=list)
    head: dict[str, torch.Tensor] = field(default_factory=dict)


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
    command = [sys.executable, "-m", "clozeline.pipeline", "--config", "recipe:tasks/sst2", *words]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return output / "tasks" / "sst2" / "train" / "manifest.json"


def our_settings(model: Path, shards: Path, output: Path, steps: int, dropout: float) -> list[str]:
    """Return the settings that differ from the recipe's."""
    return [
        f"model.init_from={model}", f"data.shards={shards}", f"output={output}", f"steps={steps}",
        f"data.global_batch={BATCH}", "data.micro_batch=8", f"optimizer.learning_rate={RATE}",
        "schedule={name: constant}", f"model.heads.classification.dropout={dropout}", "evaluate.every=null",
        "checkpoint.every=null", "log.tensorboard=false", "zero.stage=0", "resume=never", "log.every=1",
    ]  # fmt: skip


def train_ours(config: TrainConfig, world: World) -> Trained:
    trained, begin = Trained(), clozeline.train.run.train

    def keep_head_and_train(run: Run, state: Any) -> Any:
        for name, value in run.engine.model.state_dict().items():
            if name.startswith("heads.classification.classifier."):
                trained.head[name.removeprefix("heads.classification.classifier.")] = value.clone()
        return begin(run, state)

    with tick_our_steps(trained.clock), patch.object(clozeline.train.run, "train", keep_head_and_train):
        clozeline.train.run.run(config, joined=world)
    trained.losses = [line["loss"] for line in read_lines(Path(config.output) / "metrics.jsonl")]
    return trained


def stream_rows(config: TrainConfig) -> list[dict[str, Any]]:
    """Return the rows of our stream in its order, as examples of a transformers data set."""
    data = config.data
    assert data.shards is not None
    stream = Stream(
        open_shards(data.first_set), rank=0, world_size=1, seed=data.seed, lanes=data.lane_count,
        global_batch=BATCH, micro_batch=BATCH,
    )  # fmt: skip
    rows = []
    for _ in range(config.steps):
        (batch,) = stream.next_step()
        tensors = batch.tensors
        for ids, length, label in zip(tensors["input_ids"], tensors["lengths"], tensors["label"], strict=True):
            rows.append({"input_ids": ids[:length].tolist(), "label": int(label)})
    stream.close()
    return rows


class RecordLosses(transformers.TrainerCallback):
    """Records the loss of each step of the Hugging Face Trainer."""

    def __init__(self, losses: list[float]) -> None:
        self.losses = losses

    def on_log(self, *_: Any, logs: Mapping[str, float], **__: Any) -> None:
        if "loss" in logs:
            self.losses.append(logs["loss"])


def train_peer(model: Path, config: TrainConfig, head: Mapping[str, torch.Tensor]) -> Trained:
    """Train with the Hugging Face Trainer, from the same body and head."""
    peer = transformers.BertForSequenceClassification.from_pretrained(model, num_labels=2)
    with torch.no_grad():
        for name, value in head.items():
            part, _, kind = name.partition(".")
            peer.get_parameter(f"{HEAD[part]}.{kind}").copy_(value)
    trained = Trained()
    collate = transformers.DataCollatorWithPadding(transformers.AutoTokenizer.from_pretrained(model))
    callbacks = [Ticking(trained.clock), RecordLosses(trained.losses)]
    train_with_transformers(
        peer, config, config.output / "peer", stream_rows(config), collate, callbacks,
        per_device_train_batch_size=BATCH, lr_scheduler_type="constant",
    )  # fmt: skip
    return trained


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Compare the losses without dropout, then the time with it."""
    transformers.logging.set_verbosity_error()
    text, world = options.train.read_text(encoding="utf-8"), start()
    models = {dropout: folder / f"bert-{dropout}" for dropout in (0.0, 0.1)}
    for dropout, model in models.items():
        publish(model, text, options.dim, options.layers, dropout)
    shards = make_set(options.train.resolve(), models[0.0], folder / "sets")
    recipe = config_file("recipe:tasks/sst2", "train.yaml")

    def train_both(dropout: float, steps: int, name: str) -> tuple[Trained, Trained]:
        settings = our_settings(models[dropout], shards, folder / name, steps, dropout)
        config = load_config(TrainConfig, recipe, settings)
        ours = train_ours(config, world)
        return ours, train_peer(models[dropout], config, ours.head)

    ours, peer = train_both(0.0, SKIPPED + 4, "agree")
    difference = max(abs(our_loss - peer_loss) for our_loss, peer_loss in zip(ours.losses, peer.losses, strict=True))
    if difference > AGREEMENT:
        raise SystemExit(f"the losses differ by {difference:.2g} nats: the two sides do not train the same")
    rounds = [train_both(0.1, options.steps, str(number)) for number in range(options.repeats)]
    world.shutdown()
    times = [[side.clock.milliseconds()[0] for side in pair] for pair in rounds]
    ratios = [mine / peer_loss for mine, peer_loss in times]
    cpu, peer_cpu = (median(side) for side in zip(*times, strict=True))
    ratio = median(ratios)
    row = figure("fine-tuning step, CPU", "ms", cpu, peer_cpu, "Hugging Face Trainer", TARGET, holds=ratio <= TARGET)
    return row | {"ratio": ratio, "low": min(ratios), "high": max(ratios), "losses_apart": difference}


def main() -> int:
    """Print the figures; the exit code is 1 if the target is missed."""
    made = parser(__doc__, steps=20, repeats=3, dim=256, layers=4)
    made.add_argument("train", type=Path, metavar="TRAIN.tsv")
    options = made.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        row = measure(options, Path(temporary))
    print(
        f"ours {row['ours']:.0f} ms, Hugging Face Trainer {row['peer']:.0f} ms of CPU a step: ratio "
        f"{row['ratio']:.2f}, {row['low']:.2f} to {row['high']:.2f} (target {TARGET}); losses without dropout "
        f"differ by {row['losses_apart']:.1e}; {system_load()}"
    )
    write_json(options.json, [row])
    return int(not row["holds"])


if __name__ == "__main__":
    raise SystemExit(main())
