"""Measure the trainer's runs, and attention in packed rows, on a GPU."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu_models import SMALL, Experiment
from benchmarks.model import batch_packed_rows, document_sizes, pack_documents
from benchmarks.zero_stages import LENGTH, write_shards, write_training
from clozeline.configuration.config import load_config
from clozeline.model.configuration.sizes import read_size
from clozeline.model.layers.documents import attend, batch_documents
from clozeline.model.layers.masks import AttentionPlan
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.data.stream.padding import paired_bounds
from clozeline.train.logs.json_lines import read_lines, step_records
from clozeline.train.run import run_training

Step = Callable[[], object]
SETTLED = 10
"""Steps of a run that compile and fill caches."""


def train(experiment: Experiment, device: torch.device, tiny: bool, steps: int) -> dict[str, Any]:
    """Train at a ZeRO stage from shards on disk.

    Return medians of a step, its waits for data, and its memory.
    """
    rows = experiment.rows
    cuda = device.type == "cuda"
    plain = {
        "model": read_size(str(experiment.preset)) | (SMALL if tiny else {}),
        "data": {"global_batch": rows, "micro_batch": rows, "lanes": 4, "label_capacity": 512},
        "optimizer": {"name": "adamw", "learning_rate": 1e-4},
        "zero": {"stage": experiment.stage},
        "steps": SETTLED + steps,
        "precision": "bf16" if cuda else "fp32",
        "compile": cuda and experiment.stage != 3,
        "evaluate": {"max_rows": 0},
    }

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shards").mkdir()
        manifest = write_shards(folder / "shards", rows=8 * rows)
        config = write_training(folder / "train.yaml", **plain)
        words = [f"data.shards={manifest}", f"output={folder / 'run'}"]
        code = run_training(load_config(TrainConfig, config, words))

        assert code == 0, f"the run ended with {code}"

        records = step_records(read_lines(folder / "run" / "metrics.jsonl"))
        events = [
            event
            for event in read_lines(folder / "run" / "events.jsonl")
            if event["event"] == "memory"
        ]

    before = records[SETTLED - 1]
    settled = records[SETTLED:]
    between = [after["time"] - one["time"] for one, after in pairwise([before, *settled])]
    return {
        "ms": 1000 * median(between),
        "operations": (settled[-1]["flops"] - before["flops"]) / len(settled),
        "tokens": rows * LENGTH,
        "waited_share": fmean(record["stream"]["waited_share"] for record in settled),
        "losses": [records[0]["loss"], records[-1]["loss"]],
        "state_bytes": events[-1]["ranks"][0],
        "peak_bytes": settled[-1].get("device_bytes"),
    }


def times(step: Step, device: torch.device, warm: int, count: int) -> list[float]:
    """Return the milliseconds of each of `count` steps after `warm` others.

    The host waits once, at the end.
    """
    for _ in range(warm):
        step()
    if device.type != "cuda":
        ends = [time.perf_counter()]
        for _ in range(count):
            step()
            ends.append(time.perf_counter())
        return [1000 * (after - before) for before, after in pairwise(ends)]

    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    for mark in marks[:-1]:
        mark.record()
        step()

    marks[-1].record()
    torch.cuda.synchronize()
    return [before.elapsed_time(after) for before, after in pairwise(marks)]


def compare_attention(
    device: torch.device, tiny: bool, warm: int, count: int, *, across: bool
) -> dict[str, Any]:
    """Return the errors in bf16 of attention in documents and of attention with a mask.

    Errors are relative to fp32 with a mask.

    The kernel of documents may be off by twice as much as the mask. With dropout, its average of
    ones stays near 1, and the backward pass drops what the forward pass has dropped: as outputs are
    linear in values, the products of values and of outputs with their gradients are equal.
    `across`: from T5's packed targets to their sources.
    """
    torch.manual_seed(0)
    rows = pack_documents([40, 24, 9, 61] if tiny else document_sizes(64))
    batch = batch_packed_rows(rows)
    plan = AttentionPlan(documents=batch_documents(_move(batch, device)))
    queries = batch["input_ids"].shape[1]

    if across:
        # 15 % of the tokens in spans of 3, with their sentinels: 114 positions for 512
        targets = [[-(-size * 114 // 512) for size in row] for row in rows]
        queries = max(map(sum, targets))
        filled = [[*row[:-1], row[-1] + queries - sum(row)] for row in targets]
        numbers = [
            torch.repeat_interleave(torch.arange(len(row)), torch.tensor(row)) for row in filled
        ]
        batch |= {"decoder_document_ids": torch.stack(numbers)}
        batch = _move(batch | paired_bounds(batch), device)
        plan = AttentionPlan(
            documents=batch_documents(batch, "decoder_"), source_documents=batch_documents(batch)
        )

    assert plan.documents is not None

    count_rows, keys = batch["input_ids"].shape
    heads = 2 if tiny else 12
    scale = 64**-0.5
    mask = plan.documents.mask(plan.source_documents)
    # in the layout of a model's layers, whose heads lie next to each other
    query, key, value, upstream = (
        torch.randn(count_rows, columns, heads, 64, device=device).transpose(1, 2)
        for columns in (queries, keys, keys, queries)
    )

    def gradients(name: str, dtype: torch.dtype) -> list[Tensor]:
        parts = [part.to(dtype).requires_grad_() for part in (query, key, value)]
        if name == "documents":
            out = attend(parts[0], parts[1], parts[2], plan, scale)
        else:
            out = F.scaled_dot_product_attention(*parts, attn_mask=mask, scale=scale)
        return [out.detach(), *torch.autograd.grad(out, parts, upstream.to(dtype))]

    kernels = ("mask", "documents")
    exact = gradients("exact", torch.float32)
    results = {name: gradients(name, torch.bfloat16) for name in kernels}
    spent = {
        name: times(partial(gradients, name, torch.bfloat16), device, warm, count)
        for name in kernels
    }
    names = ("outputs", "queries", "keys", "values")
    errors = {
        name: {
            part: float((ours.float() - wanted).norm() / wanted.norm())
            for part, ours, wanted in zip(names, results[name], exact, strict=True)
        }
        for name in kernels
    }

    holds = all(errors["documents"][part] <= 2 * errors["mask"][part] + 1e-3 for part in names)
    query = query.bfloat16()
    key = key.bfloat16()
    value = value.bfloat16().requires_grad_()
    ones = attend(query, key, torch.ones_like(key), plan, scale, 0.1).float()
    out = attend(query, key, value, plan, scale, 0.1)
    upstream = torch.randn_like(out)
    (of_values,) = torch.autograd.grad(out, value, upstream)
    products = out.detach().double() * upstream
    backward = (of_values.double() * value.detach()).sum()
    dropped = {
        "mean of ones": float(ones.detach().mean()),
        "forward against backward": float((products.sum() - backward).abs() / products.abs().sum()),
    }
    holds &= abs(dropped["mean of ones"] - 1) < 0.02 and dropped["forward against backward"] < 1e-3
    middle = {name: median(own) for name, own in spent.items()}
    return {"errors": errors, "dropout of 0.1": dropped, "kernel_ms": middle, "holds": holds}


def _move(batch: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in batch.items()}
