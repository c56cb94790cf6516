"""Two measurements on a GPU that are no timed step of a model: runs of the trainer, and attention in packed rows."""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import ROOT

import torch
import yaml
from torch import Tensor
from torch.nn import functional as F

from benchmarks.gpu_models import SMALL, Experiment
from benchmarks.model import batch_packed_rows, document_sizes, pack_documents
from benchmarks.zero_stages import LENGTH, VOCABULARY, write_shards
from clozeline.configuration.config import load_config
from clozeline.model.layers.documents import attend, batch_documents
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.logs.json_lines import read_lines
from clozeline.train.run import run

SETTLED = 10
"""Steps of a run that compile and fill caches."""


def train(experiment: Experiment, device: torch.device, tiny: bool, steps: int) -> dict[str, Any]:
    """Train at a ZeRO stage from shards on disk; return medians of a step, its waits for data, and its memory."""
    rows, cuda = experiment.rows, device.type == "cuda"
    model = yaml.safe_load((ROOT / f"configs/models/{experiment.preset}.yaml").read_text()) | (SMALL if tiny else {})
    plain = {
        "model": model, "data": {"global_batch": rows, "micro_batch": rows, "lanes": 4, "label_capacity": 512},
        "optimizer": {"name": "adamw", "learning_rate": 1e-4}, "schedule": {"name": "linear", "warmup": 5},
        "zero": {"stage": experiment.stage}, "steps": SETTLED + steps, "checkpoint": {"every": None, "keep_last": 1},
        "precision": "bf16" if cuda else "fp32", "compile": cuda and experiment.stage != 3,
        "log": {"tensorboard": False, "report": False}, "evaluate": {"max_rows": 0},
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "shards").mkdir()
        manifest = write_shards(folder / "shards", rows=8 * rows, vocabulary=VOCABULARY)
        (folder / "train.yaml").write_text(yaml.safe_dump(plain), encoding="utf-8")
        words = [f"data.shards={manifest}", f"output={folder / 'run'}"]
        code = run(load_config(TrainConfig, folder / "train.yaml", words))
        assert code == 0, f"the run ended with {code}"
        records = [record for record in read_lines(folder / "run" / "metrics.jsonl") if "loss" in record]
        events = [event for event in read_lines(folder / "run" / "events.jsonl") if event["event"] == "memory"]
    settled = records[SETTLED:]
    between = [after["time"] - before["time"] for before, after in zip(records[SETTLED - 1 :], settled, strict=False)]
    operations = (settled[-1]["flops"] - records[SETTLED - 1]["flops"]) / len(settled)
    waits = [record["stream"]["waited_share"] for record in settled]
    line = {"ms": 1000 * float(torch.tensor(between).median()), "operations": operations, "tokens": rows * LENGTH}
    line |= {"waited_share": sum(waits) / len(waits), "losses": [records[0]["loss"], records[-1]["loss"]]}
    return {**line, "state_bytes": events[-1]["ranks"][0], "peak_bytes": settled[-1].get("device_bytes")}


def compare_attention(device: torch.device, tiny: bool) -> dict[str, Any]:
    """Return the errors in bf16 of attention in documents and of attention with a mask, relative to fp32 with a mask.

    The kernel of documents may be off by twice as much as the mask. With dropout, its average of ones stays near 1, and
    the backward pass drops what the forward pass has dropped: as outputs are linear in values, the products of values
    and of outputs with their gradients are equal.
    """
    torch.manual_seed(0)
    sizes = [40, 24, 9, 61] if tiny else document_sizes(64)
    batch = {name: tensor.to(device) for name, tensor in batch_packed_rows(pack_documents(sizes)).items()}
    documents = batch_documents(batch)
    assert documents is not None
    rows, columns = batch["input_ids"].shape
    shape, scale, mask = (rows, 2 if tiny else 12, columns, 64), 64**-0.5, documents.mask()
    inputs = [torch.randn(shape, device=device) for _ in range(4)]

    def gradients(out: Tensor, parts: list[Tensor]) -> list[Tensor]:
        return [out.detach(), *torch.autograd.grad(out, parts, inputs[3].to(out.dtype))]

    results = {}
    for name, dtype in (("exact", torch.float32), ("mask", torch.bfloat16), ("documents", torch.bfloat16)):
        parts = [part.to(dtype).requires_grad_() for part in inputs[:3]]
        if name == "documents":
            out = attend(parts[0], parts[1], parts[2], documents, False, None, scale)
        else:
            out = F.scaled_dot_product_attention(*parts, attn_mask=mask, scale=scale)
        results[name] = gradients(out, parts)
    names = ("outputs", "queries", "keys", "values")
    errors = {
        name: {
            part: float((ours.float() - exact).norm() / exact.norm())
            for part, ours, exact in zip(names, results[name], results["exact"], strict=True)
        }
        for name in ("mask", "documents")
    }
    holds = all(errors["documents"][part] <= 2 * errors["mask"][part] + 1e-3 for part in names)
    query, value = inputs[0].bfloat16(), inputs[2].bfloat16().requires_grad_()
    ones = attend(query, query, torch.ones_like(query), documents, False, None, scale, 0.1).float()
    out = attend(query, query, value, documents, False, None, scale, 0.1)
    upstream = torch.randn_like(out.detach())
    (of_values,) = torch.autograd.grad(out, value, upstream)
    out, value = out.detach(), value.detach()
    forward, backward = (out.double() * upstream).sum(), (of_values.double() * value).sum()
    size = float((out.double() * upstream).abs().sum())
    dropped = {
        "mean of ones": float(ones.detach().mean()),
        "forward against backward": float((forward - backward).abs()) / size,
    }
    holds &= abs(dropped["mean of ones"] - 1) < 0.02 and dropped["forward against backward"] < 1e-3
    return {"errors": errors, "dropout of 0.1": dropped, "holds": holds}
