"""Choose `precision`, `compile` and `deterministic` for the device of a run, where the configuration says `auto`.

On processors `auto` is fp32, not compiled and deterministic. On a GPU it is bf16 where the GPU has it, compiled, and
with the fastest kernels, as far as the other keys allow. A resumed run keeps what its first start chose.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import torch

from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import set_determinism

_ON_HOST: Final[dict[str, Any]] = {"precision": "fp32", "compile": False, "deterministic": True}
_ON_GPU: Final[dict[str, Any]] = {"precision": "bf16", "compile": True, "deterministic": False}
_BF16: Final = (8, 0)
"""Compute capability from which on a GPU multiplies in bf16 and TF32."""
_COMPILED: Final = (7, 0)
"""Compute capability from which on torch.compile has a backend."""


def fill_in_defaults(config: TrainConfig, device: torch.device, saved: TrainState | None) -> TrainConfig:
    """Return the configuration without `auto`: as in the checkpoint, else as this device and the other keys allow."""
    kept = {} if saved is None else _saved(saved)
    fastest = _ON_GPU | _limits(device) if device.type == "cuda" else _ON_HOST
    for key in automatic(config):
        if key in kept:
            config = replace(config, **{key: kept[key]})
            continue
        try:  # the checks across keys decide, such as no bf16 at stage 0
            config = replace(config, **{key: fastest[key]})
        except ValueError:
            config = replace(config, **{key: _ON_HOST[key]})
    return config


def automatic(config: TrainConfig) -> list[str]:
    """Return the keys that say `auto`."""
    return [key for key in _ON_HOST if getattr(config, key) == "auto"]


def shape_of(config: TrainConfig) -> dict[str, Any]:
    """Return what a checkpoint records about these keys, next to its frozen ones: what differs from a processor's."""
    return {key: getattr(config, key) for key in ("compile", "deterministic") if getattr(config, key) != _ON_HOST[key]}


def describe_defaults(
    asked: TrainConfig, config: TrainConfig, device: torch.device, saved: TrainState | None
) -> list[str]:
    """Return the lines of a start: what was chosen on a GPU; on another device than before, what is kept."""
    chosen, lines = automatic(asked), []
    values = ", ".join(f"{key}={str(getattr(config, key)).lower()}" for key in chosen)
    before = device.type if saved is None else saved.shape.get("device", device.type)
    if chosen and before != device.type:
        lines.append(f"device     {device.type}, the run started on {before}: it keeps {values}")
    if device.type != "cuda":
        return lines
    if chosen and before == device.type:
        lines.append(f"device     {device.type}: chosen are {values}")
    if config.precision == "fp32" and torch.cuda.get_device_capability(device) >= _BF16:
        lines.append("device     products of fp32 matrices in TF32; NVIDIA_TF32_OVERRIDE=0 makes them exact, and slow")
    return lines


def set_up_kernels(config: TrainConfig, device: torch.device) -> None:
    """Ask torch for deterministic or for fast kernels; a GPU multiplies fp32 in TF32, which rounds to 10 bits."""
    set_determinism(config.deterministic is True)
    if device.type == "cuda" and config.precision == "fp32":
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.allow_tf32 = True


def _limits(device: torch.device) -> dict[str, Any]:
    """Return the CPU's defaults of what an older GPU lacks: bf16, compilation."""
    capability = torch.cuda.get_device_capability(device)
    needs: Mapping[str, tuple[int, int]] = {"precision": _BF16, "compile": _COMPILED}
    return {key: _ON_HOST[key] for key, least in needs.items() if capability < least}


def _saved(saved: TrainState) -> dict[str, Any]:
    precision = saved.frozen.get("precision")
    known = {key: saved.shape.get(key, _ON_HOST[key]) for key in ("compile", "deterministic")}
    return known | ({"precision": precision} if precision in ("fp32", "bf16") else {})
