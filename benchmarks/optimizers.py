"""CPU time and launches of one update by each optimizer.

    python -m benchmarks.optimizers [--dim 192] [--layers 12] [--vocabulary 8000] [--repeats 9] [--json FILE]

The weights are those of an encoder, each a tensor of its own, with random gradients. Time: the median of a CPU update,
one thread, optimizers take turns. Launches: calls of operators that are no views, of the same update on a device
without values; `with lists` adds the tensors of each list that is multiplied by a number for each tensor, which a GPU
launches one by one.
"""

import sys
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.harness import parser, print_table, system_load, take_turns, write_json

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from clozeline.model.build import build_model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.registry import choose
from clozeline.train.optim.weights.parameter_groups import parameter_groups

OURS = ("adamw", "lion", "stable_adamw", "lamb", "adafactor", "muon")
TORCH: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "torch Adafactor": lambda tensors: torch.optim.Adafactor(tensors),
    "torch Adafactor, foreach=False": lambda tensors: torch.optim.Adafactor(tensors, foreach=False),
}


class Launches(TorchDispatchMode):
    """Counts launches."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.tensors = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Count an operation and do it."""
        if not func.is_view and func is not torch.ops.aten._local_scalar_dense.default:
            self.calls += 1
            numbers = args[1] if func is torch.ops.aten._foreach_mul_.List else []
            self.tensors += len(numbers) if numbers and numbers[0].dim() == 0 else 1
        return func(*args, **(kwargs or {}))


def build(name: str, model: nn.Module) -> torch.optim.Optimizer:
    """Return an optimizer over the weights of a model, after its first update; Muon iterates in bf16 on a GPU."""
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    on_gpu = next(model.parameters()).is_cuda
    if name in TORCH:
        optimizer = TORCH[name](list(model.parameters()))
    else:
        options = {"name": name, **({"iterate_in": "fp32"} if name == "muon" and not on_gpu else {})}
        builder = choose("clozeline.train.optim.optimizers", options).build()
        optimizer = builder.build(parameter_groups(model, 0.01, matrices_apart=builder.matrices_apart))
    optimizer.step()
    return optimizer


def main(arguments: list[str] | None = None) -> int:
    """Print a row for each optimizer."""
    made = parser(__doc__, dim=192, layers=12, vocabulary=8000, repeats=9, only=[*OURS, *TORCH])
    options = made.parse_args(arguments)
    config = ModelConfig(
        family="encoder", dim=options.dim, layers=options.layers, attention_heads=options.dim // 32,
        ffn_dim=4 * options.dim, heads={"masked_lm": 1.0},
    )  # fmt: skip
    built = {name: build_model(config, options.vocabulary, {}, seed=0) for name in options.only}
    optimizers = {name: build(name, model) for name, model in built.items()}
    seconds = take_turns({name: optimizer.step for name, optimizer in optimizers.items()}, options.repeats)
    rows = []
    for name, model in built.items():
        counted = Launches()
        if name in OURS[1:]:  # others: kernels for real devices alone, or values read by the host
            optimizer = build(name, model.to("meta"))
            with counted:
                optimizer.step()
        row = {"optimizer": name, "ms": 1000 * median(seconds[name])}
        rows.append({**row, "launches": counted.calls or None, "with lists": counted.tensors or None})
    count = sum(1 for _ in next(iter(built.values())).parameters())
    title = f"{count} parameters of dim {options.dim}, {system_load()}"
    print_table(rows[0], ([row["optimizer"], f"{row['ms']:.2f}", *list(row.values())[2:]] for row in rows), title)
    write_json(options.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
