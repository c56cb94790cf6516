"""Time, memory and files of quantized encoders, compared with the dense one.

    python -m benchmarks.quantization [--dim 768] [--layers 12] [--tokens 128] [--repeats 11] [--json FILE]

A BERT-like encoder with random weights. Latency: the median of a forward pass without heads' losses, one thread, each
format and the dense model in turn in one process. Resident memory: the rise while a process loads the folder, and after
a forward pass. Files: the linear maps alone, as safetensors.
"""

import gc
import json
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness import Claim, finish, parser, print_table, resident_bytes, run_script, take_turns

import torch
from torch import Tensor

from clozeline.model.build import build_model
from clozeline.model.checkpoints import Checkpoint, build_checkpoint, quantize_checkpoint, read_checkpoint
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.quantization.formats.int8 import is_integer_product_faster
from clozeline.registry import choose
from clozeline.tools.model_folder import write_imported, write_tensors

FORMATS: dict[str, dict[str, Any]] = {
    "dense": {}, "int8": {"name": "int8"}, "int8 + tables": {"name": "int8", "embeddings": True},
    "int4": {"name": "int4"},
}  # fmt: skip
VOCABULARY = 30_522
MIB = 2**20


def write_folders(folder: Path, dim: int, layers: int) -> None:
    """Write a model folder for each format, and files with the linear maps alone."""
    config = ModelConfig(
        family="encoder", dim=dim, layers=layers, attention_heads=dim // 64, ffn_dim=4 * dim, heads={"masked_lm": 1.0}
    )
    model = build_model(config, VOCABULARY, {}, seed=0)
    dense = Checkpoint(config, VOCABULARY, {name: own.detach() for name, own in model.named_parameters()}, {}, None, ())
    for number, entry in enumerate(FORMATS.values()):
        chosen = choose("clozeline.model.quantization.formats", entry) if entry else None
        made = dense if chosen is None else quantize_checkpoint(dense, chosen)
        (folder / str(number)).mkdir()
        (folder / str(number) / "config.json").write_text("{}")
        write_imported(folder / str(number), made, folder / str(number))
        linear = {name: own for name, own in made.tensors.items() if ".body." in name and "norm" not in name}
        write_tensors(folder / f"{number}.linear", linear)


def rows_of(count: int, tokens: int) -> dict[str, Tensor]:
    ids = torch.randint(VOCABULARY, (count, tokens), generator=torch.Generator().manual_seed(0))
    positions = torch.arange(tokens)[None].expand(count, -1)
    return {"input_ids": ids, "position_ids": positions, "lengths": torch.full((count,), tokens)}


def measure_memory(folder: Path) -> dict[str, float]:
    """Return the rise of resident memory of this process, MiB: after loading, and after a forward pass."""
    is_integer_product_faster()
    gc.collect()
    before = resident_bytes()
    model = build_checkpoint(read_checkpoint(folder))
    gc.collect()
    loaded = resident_bytes() - before
    with torch.inference_mode():
        model.family(rows_of(1, 16))
    gc.collect()
    return {"loaded": loaded / MIB, "used": (resident_bytes() - before) / MIB}


def measure_latency(folder: Path, tokens: int, repeats: int) -> dict[int, list[float]]:
    """Return the median milliseconds of each format by batch size; the formats take turns."""
    models = [build_checkpoint(read_checkpoint(folder / str(number))) for number in range(len(FORMATS))]
    milliseconds = {}
    with torch.inference_mode():
        for count in (1, 32):
            batch = rows_of(count, tokens)
            works = {name: partial(model.family, batch) for name, model in zip(FORMATS, models, strict=True)}
            seconds = take_turns(works, repeats, time.perf_counter).values()
            milliseconds[count] = [1e3 * median(times) for times in seconds]
    return milliseconds


def main() -> int:
    options = parser(__doc__, dim=768, layers=12, tokens=128, repeats=11, memory=(Path, "used by this script"))
    arguments = options.parse_args()
    if arguments.memory:
        print(json.dumps(measure_memory(arguments.memory)))
        return 0
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_folders(folder, arguments.dim, arguments.layers)
        memory = [run_script(__file__, "--memory", folder / str(number)) for number in range(len(FORMATS))]
        latency = measure_latency(folder, arguments.tokens, arguments.repeats)
        files = [(folder / f"{number}.linear").stat().st_size / MIB for number in range(len(FORMATS))]
        folders = [(folder / str(number) / "model.safetensors").stat().st_size / MIB for number in range(len(FORMATS))]
    kernel = "torch._int_mm" if is_integer_product_faster() else "fp32 product of integers"
    print(f"int8 kernel on this CPU: {kernel}; {arguments.layers} layers of {arguments.dim}, {arguments.tokens} tokens")
    head = ("format", "linear maps MiB", "file MiB", "loaded MiB", "used MiB", "batch 1 ms", "batch 32 ms")
    columns = zip(FORMATS, files, folders, memory, latency[1], latency[32], strict=True)
    print_table(
        head,
        [
            (
                label,
                f"{own:.1f}",
                f"{file:.1f}",
                f"{rise['loaded']:.0f}",
                f"{rise['used']:.0f}",
                f"{single:.1f}",
                f"{many:.0f}",
            )
            for label, own, file, rise, single, many in columns
        ],
    )
    claims = [
        Claim("int8: file of the linear maps", "MiB", files[1], files[0], "dense", 1 / 0.27),
        Claim("int4: file of the linear maps", "MiB", files[3], files[0], "dense", 1 / 0.16),
        Claim(
            "int8: resident memory of the loaded model",
            "MiB",
            memory[1]["loaded"],
            memory[0]["loaded"],
            "dense",
            1 / 0.45,
        ),
    ]
    return finish(claims, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
