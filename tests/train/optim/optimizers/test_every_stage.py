"""Every optimizer makes the same bits at every ZeRO stage and world size, and resumes to them at any other."""

from pathlib import Path

import pytest
import torch

from clozeline.registry import find, names
from tests.distributed import RankPool
from tests.train.optim.optimizers.injected import configured, cut_update, updated, whole_update

OPTIMIZERS = {
    name: find("clozeline.train.optim.optimizers", name) for name in names("clozeline.train.optim.optimizers")
}
EXACT = [name for name, kind in OPTIMIZERS.items() if kind.bit_exact]
CUTS = {
    "three pieces": {"matrix": (40, 31, 40), "no_decay": (4, 4, 4)},
    "a rank with padding alone": {"matrix": (60, 60, 5), "no_decay": (6, 6, 6)},
    "one element": {"matrix": (1, 51, 60), "no_decay": (11, 1, 3)},
}


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_flats_cut_anywhere_give_the_bits_of_whole_parameters(name: str, cut: str) -> None:
    """Or about an ulp less, where the optimizer declares so."""
    chosen = {"name": name, "learning_rate": 0.01}
    whole, parts = whole_update(chosen, 5), cut_update(chosen, 5, CUTS[cut])
    rtol, atol = (0.0, 0.0) if OPTIMIZERS[name].bit_exact else (3e-7, 3e-8)
    for weight in whole:
        torch.testing.assert_close(parts[weight], whole[weight], rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", EXACT)
def test_a_checkpoint_of_two_ranks_continues_at_other_stages_and_world_sizes(
    one_rank: RankPool, two_ranks: RankPool, tmp_path: Path, name: str
) -> None:
    """Saved after three updates at stage 1 by two ranks, continued at stage 0 by one rank and at stage 3 by two."""
    straight = one_rank.run(updated, configured(name, 1, 0), 1, 6)
    two_ranks.run(updated, configured(name, 2, 1), 1, 3, None, tmp_path)
    assert one_rank.run(updated, configured(name, 1, 0), 4, 6, tmp_path) == straight
    assert two_ranks.run(updated, configured(name, 2, 3), 4, 6, tmp_path) == straight * 2
