"""Every optimizer makes the same bits at every ZeRO stage and world size, and resumes to them at any other."""

from pathlib import Path

import pytest

from clozeline.registry import find, names
from tests.distributed import RankPool
from tests.train.optim.optimizers.injected import configured, updated

OPTIMIZERS = {
    name: find("clozeline.train.optim.optimizers", name) for name in names("clozeline.train.optim.optimizers")
}
EXACT = [name for name, kind in OPTIMIZERS.items() if kind.bit_exact]


@pytest.mark.parametrize("name", EXACT)
def test_a_checkpoint_of_two_ranks_continues_at_other_stages_and_world_sizes(
    one_rank: RankPool, two_ranks: RankPool, tmp_path: Path, name: str
) -> None:
    """Saved after three updates at stage 1 by two ranks, continued at stage 0 by one rank and at stage 3 by two."""
    straight = one_rank.run(updated, configured(name, 1, 0), 1, 6)
    two_ranks.run(updated, configured(name, 2, 1), 1, 3, None, tmp_path)
    assert one_rank.run(updated, configured(name, 1, 0), 4, 6, tmp_path) == straight
    assert two_ranks.run(updated, configured(name, 2, 3), 4, 6, tmp_path) == straight * 2
