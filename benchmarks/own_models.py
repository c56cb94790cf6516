"""Time of a pretraining step compared with the Hugging Face Trainer, each side with its own model and collation.

    python -m benchmarks.own_models [--steps 12] [--repeats 3] [--dim 256] [--layers 4] [--micro-batch 8]
                                    [--json FILE]

transformers writes a BERT and a GPT-2 with new weights; both sides start from them, on the paragraphs of docs/*.md, up
to 128 tokens each, batch for batch the same ones, with the same AdamW, learning rate, clipping and dropout, in fp32 on
one thread. What differs is what a user of either side gets: the Hugging Face Trainer takes
DataCollatorForLanguageModeling, which masks in each step and pads a batch to its longest row, and the head of
transformers computes the scores of all positions. Ours reads masks from shards, takes micro-batches of rows of similar
lengths (`data.length_buckets`), and computes the head at the labels alone. So the masks of both are other ones, of the
same share. With `--micro-batch 32` ours pads as the other side does. In the rows `group_by_length` the Trainer groups
rows of similar lengths into batches, so that less of the difference is padding. Its steps then hold other rows, so CPU
time is compared per token. All take turns in one process; CPU time of all threads between the ends of steps decides.
For fine-tuning see `benchmarks.finetune`.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import ROOT, figure, parser, print_table, system_load, write_json

import numpy as np
import torch
import transformers

from benchmarks.trainer import SKIPPED, Clock, Ticking, tick_our_steps, train_with_transformers
from benchmarks.zero_stages import write_training
from clozeline.configuration.config import load_config
from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import FIXED_COLUMNS, Ragged, Rows
from clozeline.pipeline.shards import ColumnSpec, base_columns, open_shards, write_manifest, write_shard
from clozeline.tools.experiments.multirun.small_bert import small_vocabulary
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.stream import Stream
from clozeline.train.distributed.process_group import World, start
from clozeline.train.run import run

TARGETS = {"masked_lm": 0.75, "causal_lm": 0.85}
HEADS = {"masked_lm": "masked_lm", "causal_lm": "lm"}
LENGTH, BATCH, SHARE = 128, 32, 0.15


def publish(folder: Path, text: str, objective: str, dim: int, layers: int) -> Any:
    """Write a model and a WordPiece as transformers does; return the tokenizer."""
    folder.mkdir()
    pieces = small_vocabulary(text, 8192)
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    tokenizer = transformers.BertTokenizer(vocab=str(folder / "vocab.txt"), do_lower_case=True)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(1)
    size: dict[str, Any] = {"vocab_size": len(pieces), "max_position_embeddings": LENGTH, "hidden_size": dim}
    size |= {"num_attention_heads": dim // 64, "num_hidden_layers": layers}
    model: torch.nn.Module
    if objective == "masked_lm":
        model = transformers.BertForMaskedLM(transformers.BertConfig(intermediate_size=4 * dim, **size))
    else:
        ends = dict.fromkeys(("bos_token_id", "eos_token_id"), tokenizer.sep_token_id)
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**size, **ends))
    model.save_pretrained(folder)
    return tokenizer


def write_rows(folder: Path, texts: list[list[int]], objective: str, tokenizer: Any) -> Path:
    """Write texts as a set, masked ones with SHARE of their tokens replaced by the mask; return its manifest."""
    draws, count = np.random.Generator(np.random.Philox(7)), len(texts)
    lists: dict[str, list[Any]] = {"input_ids": [np.array(text) for text in texts]}
    if objective == "masked_lm":
        chosen = [np.sort(draws.permutation(len(text))[: max(1, round(SHARE * len(text)))]) for text in texts]
        lists |= {"label_positions": chosen}
        lists |= {"label_ids": [ids[places] for ids, places in zip(lists["input_ids"], chosen, strict=True)]}
        lists["input_ids"] = [ids.copy() for ids in lists["input_ids"]]
        for ids, places in zip(lists["input_ids"], chosen, strict=True):
            ids[places] = tokenizer.mask_token_id
    fixed = {name: np.zeros(count, dtype) for name, dtype in FIXED_COLUMNS.items() if dtype != "binary16"}
    fixed |= {"uid": np.arange(count, dtype=np.uint64), "document_uid": np.zeros((count, 16), np.uint8)}
    specs = [*base_columns(), *(ColumnSpec(name, "uint16", "list", name) for name in lists)]
    content = Rows(fixed, {name: Ragged.from_lists(rows, np.uint16) for name, rows in lists.items()})
    shape: dict[str, Any] = {"block_rows": 240, "container": "arrow", "codec": "none"}
    folder.mkdir()
    info = write_shard(folder / "shard-00000-of-00001.arrow", content, specs, **shape)
    facts = {"name": "none", "fingerprint": "0" * 64, "vocab_size": len(tokenizer), "sentinels": []}
    facts |= {"special_ids": {"pad": tokenizer.pad_token_id, "mask": tokenizer.mask_token_id}}
    frame = {"padding_side": "right", "decoder_start": None}
    kind = "encoder" if objective == "masked_lm" else "decoder"
    described = {"name": objective, "label": objective, "options": {}, "architecture": kind, "frame": frame}
    write_manifest(
        folder, name="docs/train", kind="examples", seed=7, tokenizer=facts, columns=specs,
        objective={**described, "heads": [HEADS[objective]]}, shards=[info], output=Output(folder), **shape,
    )  # fmt: skip
    return folder / "manifest.json"


def train_ours(config: TrainConfig, world: World) -> float:
    """Return CPU milliseconds of a step."""
    clock = Clock()
    with tick_our_steps(clock):
        run(config, joined=world)
    return clock.milliseconds()[0]


def read_rows(config: TrainConfig, objective: str) -> list[dict[str, list[int]]]:
    """Return the rows of our stream for the Hugging Face Trainer, in order and without our masks."""
    shards, seed = open_shards(config.data.first_set), config.data.seed
    sizes: Any = {"lanes": config.data.lane_count, "global_batch": BATCH, "micro_batch": BATCH}
    stream, rows = Stream(shards, rank=0, world_size=1, seed=seed, **sizes), []
    for _ in range(config.steps):
        (batch,) = stream.next_step()
        ids = batch.tensors["input_ids"].long()
        if objective == "masked_lm":
            ids.flatten()[batch.tensors["label_index"]] = batch.tensors["label_ids"].long()
        lengths = batch.tensors["lengths"]
        rows += [{"input_ids": row[:length].tolist()} for row, length in zip(ids, lengths, strict=True)]
    stream.close()
    return rows


def count_padding(lengths: list[int], micro_batch: int) -> tuple[int, float]:
    """Return the tokens of the timed steps, and the share of padding in micro-batches of rows of similar lengths."""
    steps = [sorted(lengths[start : start + BATCH]) for start in range(SKIPPED * BATCH, len(lengths), BATCH)]
    parts = [step[start : start + micro_batch] for step in steps for start in range(0, BATCH, micro_batch)]
    tokens = sum(map(sum, parts))
    return tokens, 1 - tokens / sum(len(part) * part[-1] for part in parts)


def train_peer(
    model: Path, config: TrainConfig, objective: str, tokenizer: Any, rows: list[dict[str, list[int]]], sampling: str
) -> tuple[float, list[int]]:
    """Return CPU milliseconds of a step of the Hugging Face Trainer, and the lengths of the rows in its order."""
    masked, clock, lengths = objective == "masked_lm", Clock(), list[int]()
    kind = transformers.BertForMaskedLM if masked else transformers.GPT2LMHeadModel
    collate = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=masked, mlm_probability=SHARE)

    def count_and_collate(batch: list[dict[str, list[int]]]) -> Any:
        lengths.extend(len(row["input_ids"]) for row in batch)
        return collate(batch)

    train_with_transformers(
        kind.from_pretrained(model), config, config.output / "peer", rows, count_and_collate, [Ticking(clock)],
        per_device_train_batch_size=BATCH, lr_scheduler_type="constant", train_sampling_strategy=sampling,
    )  # fmt: skip
    return clock.milliseconds()[0], lengths


def measure(objective: str, options: argparse.Namespace, folder: Path, world: World) -> list[dict[str, Any]]:
    """Let all sides take turns; return the rows of the table."""
    texts = [part for path in sorted((ROOT / "docs").glob("*.md")) for part in path.read_text("utf-8").split("\n\n")]
    model = folder / objective
    tokenizer = publish(model, "\n".join(texts), objective, options.dim, options.layers)
    ids = [each[:LENGTH] for each in tokenizer(texts, add_special_tokens=False)["input_ids"] if len(each) > 1]
    tokens = [len(each) for each in ids]
    shards = write_rows(folder / f"{objective}-set", ids, objective, tokenizer)
    own = {"init_from": str(model), "heads": {HEADS[objective]: 1.0}}
    data = {"global_batch": BATCH, "micro_batch": options.micro_batch, "lanes": 8, "length_buckets": True}
    path = write_training(folder / "train.yaml", model=own, data=data, schedule={"name": "constant"})
    times, per_token, padding = [], [], []
    for repeat in range(options.repeats):
        words = [f"data.shards={shards}", f"output={folder / objective / str(repeat)}", f"steps={options.steps}"]
        config = load_config(TrainConfig, path, [*words, "resume=never", "optimizer.learning_rate=1e-4"])
        rows = read_rows(config, objective)
        peer = model, config, objective, tokenizer, rows
        mine = train_ours(config, world), [len(row["input_ids"]) for row in rows]
        other, grouped = (train_peer(*peer, sampling) for sampling in ("sequential", "group_by_length"))
        times.append((mine[0], other[0]))
        counts = [
            count_padding(*side) for side in ((mine[1], options.micro_batch), (other[1], BATCH), (grouped[1], BATCH))
        ]
        timed = (options.steps - SKIPPED) * 1e3
        per_token.append((mine[0] * timed / counts[0][0], grouped[0] * timed / counts[2][0]))
        padding = [share for _, share in counts]
    name = f"{objective}, {len(ids)} rows of {min(tokens)} to {max(tokens)} tokens, median {median(tokens):.0f}"
    shares = dict(zip(("padding", "peer_padding"), padding, strict=False))
    grouped_shares = {"padding": padding[0], "peer_padding": padding[2]}
    return [
        compare(name, "ms", times, "Hugging Face Trainer", TARGETS[objective]) | shares,
        compare(f"{objective}, group_by_length", "us/token", per_token, "Hugging Face Trainer", None) | grouped_shares,
    ]


def compare(case: str, unit: str, pairs: list[tuple[float, float]], peer: str, target: float | None) -> dict[str, Any]:
    """Return a row: medians of both sides, and the median, lowest and highest ratio of the rounds."""
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    ratios = [mine / other for mine, other in pairs]
    row = figure(case, unit, ours, theirs, peer, target, holds=target is None or median(ratios) <= target)
    return row | {"ratio": median(ratios), "low": min(ratios), "high": max(ratios)}


def main() -> int:
    """Print the figures; the exit code is 1 if a target is missed."""
    options = parser(__doc__, steps=12, repeats=3, dim=256, layers=4, micro_batch=8).parse_args()
    transformers.logging.set_verbosity_error()
    world = start()
    with tempfile.TemporaryDirectory() as temporary:
        rows = [row for objective in TARGETS for row in measure(objective, options, Path(temporary), world)]
    world.shutdown()
    cells = [
        (row["case"], row["unit"], f"{row['ours']:.0f}", f"{row['peer']:.0f}", f"{row['ratio']:.2f}",
         f"{row['low']:.2f} to {row['high']:.2f}", row["target"] or "–", f"{row['padding']:.0%}",
         f"{row['peer_padding']:.0%}")
        for row in rows
    ]  # fmt: skip
    head = ("case", "CPU", "ours", "Trainer", "ratio", "rounds", "target", "padding", "Trainer's padding")
    print_table(head, cells, system_load())
    write_json(options.json, rows)
    return int(not all(row["holds"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
