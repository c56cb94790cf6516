"""Muon and its AdamW against torch's, in plain steps and in runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clozeline.train.configuration.config import TrainConfig
from clozeline.train.distributed.process_group import World
from tests.distributed import RankPool
from tests.train.optim.optimizers.injected import MATRICES, SIZES, configured, gradient, start_weights, whole_update
from tests.train.synthetic import build, resume, save, train_steps


@pytest.mark.parametrize("adjust", ["match_rms_adamw", "original"])
def test_updates_are_those_of_torch(monkeypatch: pytest.MonkeyPatch, adjust: str) -> None:
    """Bit for bit, in high and wide matrices, two of one shape; vectors are AdamW's, with a rate of their own."""
    monkeypatch.setitem(SIZES, "again", SIZES["up"])
    own = {"momentum": 0.8, "adjust": adjust, "eps": 1e-3, "adam_rate": 0.5}
    found, weights = whole_update({"name": "muon", "learning_rate": 0.02, **own}, 5), start_weights()
    matrices = [weight for weight in weights.values() if weight.dim() == 2]
    vectors = [weight for weight in weights.values() if weight.dim() == 1]
    muon = torch.optim.Muon(matrices, lr=0.02, weight_decay=0.1, momentum=0.8, adjust_lr_fn=adjust)
    adamw = torch.optim.AdamW(vectors, lr=0.01, betas=(0.9, 0.95), eps=1e-3, weight_decay=0.0, foreach=False)
    for step in range(1, 6):
        for name, weight in weights.items():
            weight.grad = gradient(name, SIZES[name], step)
        muon.step()
        adamw.step()
    for name, weight in weights.items():
        if weight.dim() == 2:
            assert torch.equal(found[name], weight)
        else:
            torch.testing.assert_close(found[name], weight, rtol=1e-6, atol=1e-7)


def test_an_iteration_in_fp32_is_that_of_the_paper() -> None:
    """In float64, one singular value at a time: x becomes a x + b x³ + c x⁵, five times, and the vectors stay."""
    own = {"momentum": 0.0, "adjust": "original", "iterate_in": "fp32"}
    found, before = whole_update({"name": "muon", "learning_rate": 0.02, **own}, 1), start_weights()
    matrices = [name for name, weight in before.items() if weight.dim() == 2]
    assert len(matrices) > 1
    for name in matrices:
        left, sizes, right = np.linalg.svd(gradient(name, SIZES[name], 1).double().numpy(), full_matrices=False)
        sizes = sizes / np.sqrt((sizes**2).sum())
        for _ in range(5):
            sizes = 3.4445 * sizes - 4.7750 * sizes**3 + 2.0315 * sizes**5
        high, wide = SIZES[name]
        expected = 0.02 * max(1, high / wide) ** 0.5 * (left * sizes) @ right
        change = before[name].double().numpy() * (1 - 0.02 * 0.1) - found[name].double().numpy()
        np.testing.assert_allclose(change, expected, atol=2e-6)


def trained(world: World, config: TrainConfig, first: int, last: int, folder: Path, begin: bool) -> Any:
    """Train on real batches from the start or from a checkpoint, and save; return losses and norms."""
    engine = build(config, world)
    if not begin:
        resume(engine, folder)
    groups = {group["name"] for group in engine.optimizer.param_groups}
    found = train_steps(engine, first, last)
    save(engine, folder, last)
    engine.close()
    return found, groups


def test_clipping_and_stages_leave_real_runs_as_they_are(
    one_rank: RankPool, two_ranks: RankPool, tmp_path: Path
) -> None:
    """The norm is that of the gradient, which every optimizer has at the first step, and is cut before the momentum."""
    runs = {}
    for name, ranks, stage in (("muon", 1, 0), ("muon", 2, 1), ("muon", 2, 3), ("adamw", 1, 0)):
        config = configured(name, ranks, stage, gradient_clipping=0.5)
        pool = (one_rank, two_ranks)[ranks - 1]
        found, groups = pool.run(trained, config, 1, 4, tmp_path / f"{name}{ranks}{stage}", True)[0]
        assert groups == ({MATRICES} if name == "muon" else set()) | {"decay", "no_decay"}
        runs[name, ranks, stage] = [(float.fromhex(loss), float.fromhex(norm)) for loss, norm in found]
    expected = runs["muon", 1, 0]
    assert min(norm for _, norm in expected) > 0.5
    assert runs["adamw", 1, 0][0] == expected[0]
    for stage in (1, 3):
        assert runs["muon", 2, stage] == [pytest.approx(pair, rel=1e-4) for pair in expected]


BF16 = [("muon", 1), ("muon", 2), ("muon", 3), ("adafactor", 1)]


@pytest.mark.parametrize(
    ("name", "stage"), [pytest.param(*case, marks=[] if case == BF16[0] else pytest.mark.slow) for case in BF16]
)
def test_bf16_runs_resume_to_the_same_bits(two_ranks: RankPool, tmp_path: Path, name: str, stage: int) -> None:
    config = configured(name, 2, stage, precision="bf16", gradient_clipping=1.0)
    straight = two_ranks.run(trained, config, 1, 4, tmp_path / "straight", True)[0][0]
    begun = two_ranks.run(trained, config, 1, 2, tmp_path / "parts", True)[0][0]
    assert begun + two_ranks.run(trained, config, 3, 4, tmp_path / "parts", False)[0][0] == straight
