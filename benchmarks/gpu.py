"""Measure models and training on one GPU: a JSON line per experiment, in ten minutes.

The most valuable experiments come first.

    python -m benchmarks.gpu [--json gpu.jsonl] [--only NAME ...] [--minutes 10] [--limit 120]
    python -m benchmarks.gpu --device cpu     small models in fp32: a trial that measures nothing

Each experiment runs in a process of its own, for at most `--limit` seconds. One that fails or takes
longer leaves a line with `failed`, and the next one starts. Run the command again to continue:
finished experiments are skipped.

Steps are forward and backward passes in bf16 without dropout, timed by events of the device: 30 to
warm up, 50 timed. Every line has the median and the quartiles of a step in milliseconds, tokens per
second, MFU (operations divided by the vendor's peak) with its goal, peak memory, clock and
temperature at the end, the milliseconds of all kernels, and the ten slowest ones.

- bert 256 x 128, gpt2 32 x 1024: compiled; goals 0.50 and 0.45
- documents: BERT-base on documents of natural lengths, packed (read by the kernel for flat rows)
  and padded
- attention, attention across: that kernel against a mask, in bf16, within packed rows and from T5's
  packed targets to their sources: errors of outputs and gradients, dropout, and milliseconds
  forward and backward
- training: the trainer at ZeRO stages 1, 2 and 3: waits for data, bytes of weights, gradients and
  optimizer state
- product: matrices of BERT-base's feed-forward block, at 16k to 128k tokens: the peak that its
  width allows
- bert, gpt2, t5: eager, and each layer and head compiled, at several micro-batches
- heads: BERT-base over all positions, and GPT-2's scores 4,096 labels at a time
- recomputed: layer activations recomputed in the backward pass
- deterministic: deterministic algorithms
- forward: BERT-base's forward pass alone, and with its linear maps in int8
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from argparse import SUPPRESS, Namespace
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from statistics import quantiles
from typing import Any

from benchmarks.harness import ROOT, parser

import torch
from torch import Tensor
from torch.autograd import DeviceType  # type: ignore[attr-defined]

from benchmarks.gpu_models import Experiment, build
from benchmarks.gpu_runs import Step, compare_attention, times, train
from benchmarks.model import (
    batch_packed_rows,
    document_sizes,
    encoder_batch,
    pack_documents,
    random_labels,
    short_rows,
)
from benchmarks.zero_stages import LENGTH
from clozeline.model.compilation.host_shapes import add_host_shapes, pad_labels
from clozeline.train.logs.cost_estimate import peak_of

SMALLEST = None
_LEAST = 20.0
"""Seconds that an experiment needs at least: imports and compilation."""


def experiments() -> dict[str, Experiment]:
    """Return the experiments by name, in the order of their value."""
    bert = Experiment(preset="bert_base", rows=128)
    gpt2 = Experiment(preset="gpt2_small", rows=32, columns=1024, share=1.0)
    t5 = Experiment(preset="t5_base", rows=64, targets=114, share=1.0)
    documents = replace(bert, rows=256)
    by_name = {
        "bert 256 x 128": replace(bert, rows=256, columns=128, compiled=True, goal=0.50),
        "gpt2 32 x 1024": replace(gpt2, compiled=True, goal=0.45),
        "documents packed": replace(documents, layout="packed"),
        "attention": Experiment(attention="self", rows=1),
        "attention across": Experiment(attention="cross", rows=1),
        "training, stage 1": replace(bert, rows=512, columns=LENGTH, stage=1),
        "documents padded": replace(documents, layout="padded"),
        "training, stage 2": replace(bert, rows=512, columns=LENGTH, stage=2),
        "training, stage 3": replace(bert, rows=512, columns=LENGTH, stage=3),
    }

    by_name |= {
        f"product {tokens // 1024}k": Experiment(rows=tokens, columns=1)
        for tokens in (16384, 32768, 131072)
    }

    for name, model, sizes in (
        ("bert", bert, (32, 128, 256)),
        ("gpt2", gpt2, (16, 32, 64)),
        ("t5", t5, (32, 64, 128)),
    ):
        for rows in sizes:
            for compiled in (False, True):
                mode = "compiled" if compiled else "eager"
                by_name[f"{name} {mode} {rows} rows"] = replace(model, rows=rows, compiled=compiled)

    return {
        **by_name,
        "heads all positions": replace(bert, share=1.0, compiled=True),
        "heads in chunks": replace(gpt2, label_chunk=4096, compiled=True),
        "recomputed": replace(bert, compiled=True, recomputed=True),
        "deterministic": replace(bert, compiled=True, deterministic=True),
        "forward dense": replace(bert, forward=True),
        "forward int8": replace(bert, forward=True, number_format="int8_dynamic"),
    }


def draw_batch(experiment: Experiment) -> dict[str, Tensor]:
    """Return the batch of a step, on the host."""
    if experiment.layout != "full":
        sizes = document_sizes(experiment.rows)
        is_packed = experiment.layout == "packed"
        return batch_packed_rows(pack_documents(sizes)) if is_packed else short_rows(sizes)

    ids, positions = random_labels(experiment.rows, experiment.columns)

    if experiment.targets:
        targets = torch.randint(5, 30_000, (experiment.rows, experiment.targets))
        return encoder_batch(ids, torch.arange(targets.numel())) | {
            "label_ids": targets.flatten(),
            "decoder_input_ids": targets.roll(1, dims=1),
            "decoder_position_ids": torch.arange(experiment.targets)[None],
        }

    batch = encoder_batch(ids, torch.arange(ids.numel()) if experiment.share == 1 else positions)
    return pad_labels(batch, experiment.label_capacity) if experiment.compiled else batch


def steps(experiment: Experiment, device: torch.device, tiny: bool) -> tuple[Step, int, float]:
    """Return a step, its tokens, and its floating-point operations."""
    if experiment.preset is None:
        x, weight = (
            torch.ones(shape, device=device, dtype=torch.bfloat16)
            for shape in ((experiment.rows, 768), (768, 3072))
        )
        product = partial(torch.mm, x, weight, out=torch.mm(x, weight))
        return product, experiment.rows, 2.0 * experiment.rows * 768 * 3072

    model = build(experiment, device, tiny)
    on_host = draw_batch(experiment)
    with_shapes = add_host_shapes(on_host, model.position_limit)
    batch = {key: value.to(device) for key, value in with_shapes.items()}
    lengths = on_host["lengths"].tolist()
    labels = int((on_host["label_ids"] >= 0).sum()) / len(lengths)
    operations = sum(model.flops(length, experiment.targets, labels) for length in lengths)

    if experiment.forward:
        return torch.inference_mode()(partial(model, batch)), sum(lengths), operations / 3

    def step() -> None:
        total = torch.stack([loss.total for loss in model(batch).values()]).sum()
        (total / len(batch["label_index"])).backward()
        model.zero_grad()

    return step, sum(lengths) + experiment.targets * len(lengths), operations


def kernels(step: Step, device: torch.device) -> tuple[float, dict[str, float]]:
    """Return the milliseconds of all operations or kernels of a step.

    Also the shares of the ten slowest ones.
    """
    cuda = device.type == "cuda"
    with torch.profiler.profile() as profile:
        step()
    kind = "self_device_time_total" if cuda else "self_cpu_time_total"
    # an operation has the time of its kernels, which are events of their own
    events = [
        event for event in profile.key_averages() if (event.device_type == DeviceType.CUDA) == cuda
    ]
    spent = {event.key: float(getattr(event, kind)) for event in events}
    total = sum(spent.values()) or 1.0
    longest = sorted(spent, key=lambda key: -spent[key])[:10]
    return total / 1000, {key[:80]: round(spent[key] / total, 4) for key in longest}


def measure(
    experiment: Experiment, device: torch.device, warm: int, count: int, tiny: bool
) -> dict[str, Any]:
    """Return the line of an experiment, which has this process to itself."""
    cuda = device.type == "cuda"
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(experiment.deterministic)
    peak = peak_of(device, "bf16", float("nan"))
    line: dict[str, Any] = {**asdict(experiment), "tiny": tiny}
    line |= {"torch": torch.__version__, "device": str(device)}

    if experiment.attention is not None:
        line |= compare_attention(device, tiny, warm, count, across=experiment.attention == "cross")
    else:
        if experiment.stage is None:
            step, tokens, operations = steps(experiment, device, tiny)
            low, middle, high = quantiles(times(step, device, warm, count), n=4)
            total, slowest = kernels(step, device)
            line |= {
                "ms": middle,
                "ms_quartiles": [low, high],
                "kernels_ms": total,
                "kernels": slowest,
            }
        else:
            line |= train(experiment, device, tiny, count)
            middle = line["ms"]
            tokens = line.pop("tokens")
            operations = line.pop("operations")
        per_second = 1000 * operations / middle
        line |= {
            "tokens_per_s": 1000 * tokens / middle,
            "operations_per_s": per_second,
            "mfu": per_second / peak if cuda else None,
            "peak": peak if cuda else None,
        }

    if cuda:
        asked = "name,clocks.sm,temperature.gpu,power.draw,clocks_event_reasons.active"
        state = subprocess.run(
            ["nvidia-smi", f"--query-gpu={asked}", "--format=csv,noheader"],
            capture_output=True,
            text=True,
        )
        line |= {
            "memory_gb": torch.cuda.max_memory_allocated() / 1e9,
            "state": state.stdout.strip(),
        }

    return line


def shrink(experiment: Experiment) -> Experiment:
    """Return an experiment with a few short rows."""
    most = {"rows": 4, "columns": 16, "targets": 5}
    small = {name: min(getattr(experiment, name), limit) for name, limit in most.items()}
    return replace(experiment, **small, label_capacity=64)


def describe(line: dict[str, Any]) -> str:
    """Return what is printed of a line."""
    if "failed" in line:
        return f"FAILED: {line['failed']}"
    if "errors" in line:
        same = "equal" if line["holds"] else "DIFFERENT"
        return f"{same}: {line['errors']}, dropout {line['dropout of 0.1']}, ms {line['kernel_ms']}"

    goal = "" if line["goal"] is None else f" (goal {line['goal']:.2f})"
    share = (
        ""
        if line["mfu"] is None
        else f", MFU {line['mfu']:.2f}{goal} of {line['peak'] / 1e12:.0f} TFLOP/s"
    )

    waits = f", {line['waited_share']:.1%} waiting for data" if "waited_share" in line else ""
    return f"{line['ms']:.2f} ms, {line['tokens_per_s']:,.0f} tokens/s{share}{waits}"


def run_alone(name: str, words: list[str], limit: float) -> dict[str, Any]:
    """Measure an experiment in a new process, and return its line.

    The process is ended after `limit` seconds.
    """
    command = [sys.executable, "-m", "benchmarks.gpu", "--alone", name, *words]

    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=out, stderr=errors, start_new_session=True
        )

        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            # with the compiler's workers, which it has started
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return {"name": name, "failed": f"took more than {limit:.0f} s"}

        out.seek(0)
        errors.seek(0)
        if process.returncode:
            said = errors.read().strip().splitlines() or ["no message"]
            return {"name": name, "failed": f"exit code {process.returncode}: {said[-1][:500]}"}

        line: dict[str, Any] = json.loads(out.read().splitlines()[-1])
        return line


def run_all(options: Namespace) -> int:
    """Append a line per experiment to a file, except for finished ones; return 1 if one fails."""
    output = options.json
    words = [f"--{name}={getattr(options, name)}" for name in ("device", "warm", "steps")]
    lines = output.read_text(encoding="utf-8").splitlines() if output.exists() else []
    finished = {line["name"] for line in map(json.loads, lines) if "failed" not in line}
    end = time.monotonic() + 60 * options.minutes
    failed = 0

    for name in options.only:
        if name in finished:
            continue
        left = end - time.monotonic()
        if left < min(options.limit, _LEAST):
            spent = f"{options.minutes:g} minutes are over before '{name}'"
            print(f"{spent}: run the command again to continue")
            break

        line = run_alone(name, words, min(options.limit, left))
        failed += "failed" in line or not line.get("holds", True)
        with output.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        print(f"{name}: {describe(line)}", flush=True)

    return int(failed > 0)


def main() -> int:
    """Run the experiments that the file does not have yet."""
    every = experiments()
    made = parser(
        __doc__,
        minutes=(10.0, "no experiment starts later; default: %(default)s"),
        limit=(120.0, "seconds of an experiment; default: %(default)s"),
        warm=30,
        steps=(50, "timed steps, 2 or more; default: %(default)s"),
    )
    made.add_argument("--only", nargs="*", choices=list(every), default=list(every), metavar="NAME")
    made.add_argument(
        "--device",
        choices=("cuda", "cpu"),
        default="cuda",
        help="cpu: small models, measures nothing",
    )

    made.add_argument("--alone", choices=list(every), help=SUPPRESS)
    made.set_defaults(json=Path("gpu.jsonl"))
    options = made.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU here: nothing was run")
        return 0

    if options.alone:
        tiny = options.device == "cpu"
        experiment = every[options.alone]
        experiment = shrink(experiment) if tiny else experiment
        line = measure(experiment, torch.device(options.device), options.warm, options.steps, tiny)
        print(json.dumps({"name": options.alone, **line}))
        return 0

    return run_all(options)


if __name__ == "__main__":
    # what deterministic products ask for
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    raise SystemExit(main())
