"""Run the trainer's engine with DeepSpeed on the GPU that `tests.benchmarks.fake_gpu` pretends, and say where it stops.

    python -m tests.benchmarks.fake_engine [--stages 1 2 3]

A step of a small BERT in bf16: the engine and DeepSpeed are built, then forward, backward, norm, clipping and update
run on tensors without values. What a CPU build of torch lacks of CUDA's streams, events and device facts is stood in
for; collectives are those of torch's process group "fake". The engine's own read of norm and losses, its one wait, gets
numbers; any other read of a value by the host ends the step, and is named with its line.
"""

import os
import subprocess
import sys
import tempfile
import traceback
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from benchmarks.harness import ROOT, parser, print_table

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

from clozeline.configuration.config import load_config
from clozeline.model.compilation.host_shapes import add_host_shapes
from clozeline.train.configuration.config import TrainConfig, check_world
from clozeline.train.distributed.process_group import World, load_deepspeed
from clozeline.train.engine import Engine
from tests.benchmarks.fake_gpu import DEVICE, Kernels, build, configurations, move, preload, pretended_device
from tests.benchmarks.recipe_batches import recipe_batch

_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
_PROPERTIES = SimpleNamespace(
    major=9, minor=0, name="NVIDIA H200 (pretended)", total_memory=1 << 37, multi_processor_count=132
)


class _Still(nullcontext[None]):
    """A stream or an event on which nothing happens."""

    def __init__(self, *_, **__):
        super().__init__()

    def __getattr__(self, name):
        return lambda *_, **__: 1.0


_CUDA = {
    **dict.fromkeys(("Stream", "Event", "current_stream", "default_stream", "stream"), _Still),
    **dict.fromkeys(("synchronize", "set_device", "manual_seed", "manual_seed_all"), lambda *_: None),
    **dict.fromkeys(("nvtx.range_push", "nvtx.range_pop"), lambda *_: None),
    **dict.fromkeys(("memory_allocated", "max_memory_allocated", "current_device"), lambda *_: 0),
    **dict.fromkeys(("memory_reserved", "max_memory_reserved"), lambda *_: 0),
    **dict.fromkeys(("reset_peak_memory_stats", "empty_cache"), lambda *_: None),
    "get_device_capability": lambda *_: (9, 0),
    "get_device_name": lambda *_: _PROPERTIES.name,
    "mem_get_info": lambda *_: (1 << 37, 1 << 37),
    **dict.fromkeys(("is_available", "is_bf16_supported"), lambda *_: True),
    "device_count": lambda: 1,
    "default_generators": (SimpleNamespace(manual_seed=lambda _: None),),
    "get_device_properties": lambda *_: _PROPERTIES,
}
"""What a CPU build of torch lacks, and a step asks for."""


class _Engines(Kernels):
    """Also makes a scalar of the host on the device, which fake tensors leave to the real one."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        options = kwargs or {}
        if func is torch.tensor and str(options.get("device", "")).startswith("cuda"):
            return torch.empty(np.shape(args[0]), dtype=options.get("dtype"), device=options["device"])
        return super().__torch_function__(func, types, args, kwargs)


@contextmanager
def _stood_in():
    patches = [patch(f"torch.cuda.{name}", value) for name, value in _CUDA.items()]
    # made of real tensors, before
    patches.append(patch("clozeline.train.engine.add_host_shapes", lambda tensors, *_: tensors))
    patches.append(patch("clozeline.train.zero.start_to_read", lambda scalars: lambda: [1.0] * len(scalars)))
    with pretended_device() as mode:
        for each in patches:
            each.start()
        try:
            yield mode
        finally:
            patch.stopall()


def step(stage):
    """Return what was reached at a ZeRO stage, and where it stopped."""
    (training,) = configurations(["bert variant=tiny"])
    words = [*training.words, "data.shards=unused", "output=unused", "precision=bf16", f"zero.stage={stage}"]
    config = load_config(TrainConfig, training.path, words)
    model, batch = build(config)[0], recipe_batch(training, config)
    host = add_host_shapes(batch, model.position_limit, model.host_tensors)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    reached = "nothing"
    with _stood_in() as mode:
        try:
            move(model)
            for parameter in model.parameters():
                parameter.data = parameter.data.float()
            with patch.object(nn.Module, "_apply", lambda self, *_, **__: self):  # the model is on the device already
                load_deepspeed()
                engine = Engine(model, config, World(0, 1, 0, DEVICE, dist.group.WORLD))
            reached = "engine and DeepSpeed built"
            tensors = {name: mode.from_tensor(tensor) for name, tensor in host.items()}
            origin = np.zeros((len(batch["input_ids"]), 3), np.int64)
            micro_batches = [SimpleNamespace(tensors=tensors, origin=origin)] * check_world(config, 1)
            with _Engines():
                engine.step(micro_batches, dict.fromkeys(config.model.heads, 1.0), 1, 1e-3)
        except Exception as error:  # where it stops is the result
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_named(frame.filename)]
            last = frames[-1]
            named = last.filename.rpartition("site-packages/")[2].removeprefix(f"{ROOT}/")
            return reached, f"{named}:{last.lineno} {last.line} ({type(error).__name__})"
    return "a complete step", ""


def _is_named(file):
    return "/deepspeed/" in file or Path(file).is_relative_to(ROOT / "clozeline")


def main():
    """Print a row for each stage, each from a process of its own."""
    options = parser(__doc__, stages=([1, 2, 3], "ZeRO stages")).parse_args()
    if len(options.stages) == 1:
        print("\t".join(step(options.stages[0])))
        return 0
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, **preload(Path(folder)), **_RANK, "DS_ACCELERATOR": "cuda"}
        for stage in options.stages:
            command = [sys.executable, "-m", "tests.benchmarks.fake_engine", "--stages", str(stage)]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
            rows.append([stage, *(done.stdout.strip("\n").rpartition("\n")[2].split("\t") or [done.stderr[-300:]])])
    print_table(("stage", "reached", "stops at"), rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
