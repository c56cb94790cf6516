"""Choices for a device; GPUs are faked by their compute capability, which is all that is asked of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.train.checkpoint.format import Index
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.configuration.config import TrainConfig
from clozeline.train.startup.start_or_resume import StartingPoint, automatic, find_starting_point, set_up_kernels
from tests.train.synthetic import tiny

HOST, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.fixture
def capability(monkeypatch: pytest.MonkeyPatch) -> Any:
    def fake(major: int, minor: int = 0) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (major, minor))

    return fake


def begin(config: TrainConfig, device: torch.device, saved: StartingPoint | None = None) -> StartingPoint:
    if saved is None:
        return find_starting_point(config, "a set", 1, device, None)
    state = TrainState(step=1, samples=8, frozen=saved.state.frozen, dataset="a set", shape=saved.state.shape)
    return find_starting_point(
        config, "a set", 1, device, (Path("run/checkpoints/step-00000001"), Index(state.plain(), {}, {}, [], {}))
    )


def chosen(point: StartingPoint) -> tuple[str, bool, bool]:
    config = point.config
    return config.precision, config.compile, config.deterministic  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("major", "changes", "expected"),
    [
        (9, {}, ("bf16", True, False)),
        (8, {}, ("bf16", True, False)),
        (7, {}, ("fp32", True, False)),
        (6, {}, ("fp32", False, False)),
        (9, {"zero__stage": 0}, ("fp32", True, False)),
        (9, {"zero__stage": 3}, ("bf16", False, False)),
        (9, {"zero__offload": "optimizer"}, ("fp32", True, False)),
        (9, {"precision": "fp32", "compile": False, "deterministic": True}, ("fp32", False, True)),
    ],
)
def test_a_gpu_gets_what_it_has_and_the_keys_allow(
    capability: Any, major: int, changes: dict[str, Any], expected: tuple[str, bool, bool]
) -> None:
    capability(major)
    point = begin(tiny(**changes), GPU)
    assert chosen(point) == expected
    assert automatic(point.config) == []


def test_a_processor_gets_what_it_always_had() -> None:
    """No line, and no new key in the checkpoint."""
    point = begin(tiny(), HOST)
    assert chosen(point) == ("fp32", False, True)
    assert point.choices == ()
    assert (point.state.frozen["precision"], sorted(point.state.shape)) == (
        "fp32", ["device", "micro_batch", "world_size", "zero_stage"],
    )  # fmt: skip


def test_a_start_says_what_was_chosen(capability: Any) -> None:
    capability(9)
    said = "\n".join(begin(tiny(precision="fp32"), GPU).choices)
    assert "chosen are compile=true, deterministic=false\n" in said
    assert "products of fp32 matrices in TF32" in said
    capability(7, 5)
    assert begin(tiny(), GPU).choices == (
        "device     cuda: chosen are precision=fp32, compile=true, deterministic=false",
    )


@pytest.mark.parametrize(("first", "then"), [(HOST, GPU), (GPU, HOST)])
def test_a_resumed_run_keeps_what_its_first_start_chose(capability: Any, first: Any, then: Any) -> None:
    capability(9)
    start = begin(tiny(), first)
    assert chosen(begin(tiny(), first, start)) == chosen(start)
    resumed = begin(tiny(), then, start)
    assert chosen(resumed) == chosen(start)
    values = "precision={}, compile={}, deterministic={}".format(*map(str, chosen(start))).lower()
    assert f"{then.type}, the run started on {first.type}: it keeps {values}" in resumed.choices[0]
    assert begin(tiny(compile=False), then, start).config.compile is False


def test_kernels_follow_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(torch, "set_float32_matmul_precision", asked.append)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    before = torch.get_deterministic_debug_mode()
    try:
        set_up_kernels(tiny(precision="fp32", deterministic=False), HOST)
        assert (asked, torch.get_deterministic_debug_mode()) == ([], 0)
        set_up_kernels(tiny(precision="bf16", deterministic=True), GPU)
        assert (asked, torch.are_deterministic_algorithms_enabled()) == ([], True)
        set_up_kernels(tiny(precision="fp32", deterministic=True), GPU)
        assert (asked, torch.backends.cudnn.allow_tf32) == (["high"], True)
    finally:
        torch.set_deterministic_debug_mode(before)
