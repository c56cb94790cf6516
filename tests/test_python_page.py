"""docs/python.md, block after block, as a reader would paste it, beside a folder `data/site`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.distributed import run_program
from tests.train.masked_set import write_masked_sets

ROOT = Path(__file__).parents[1]
BLOCKS = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.M | re.S)
LONGEST_BLOCK = 8


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the lines that the page prints, run in a folder of its own."""
    folder = tmp_path_factory.mktemp("page")
    write_masked_sets(folder / "data" / "site" / "corrupt" / "masked_lm")
    done = run_program("\n".join(BLOCKS), folder)
    assert done.codes == [0], done.errors
    return done.outputs[0]


def test_blocks_are_short() -> None:
    """Imports aside."""
    for block in BLOCKS:
        lines = [line for line in block.splitlines() if line.strip() and not re.match(r"(from|import) ", line)]
        assert len(lines) <= LONGEST_BLOCK, block


def test_a_text_is_corrupted_and_restored(printed: str) -> None:
    assert "<extra_0>" in printed
    assert "[CLS] It is raining . [SEP]" in printed


def test_a_shard_set_is_opened(printed: str) -> None:
    assert "240 rows of input_ids, label_positions, label_ids; sample " in printed


def test_the_plain_loop_takes_three_steps(printed: str) -> None:
    steps = re.findall(r"^(\d) (\d\.\d+)$", printed, re.M)
    assert [step for step, _ in steps] == ["0", "1", "2"]


def test_a_loader_resumes_at_the_saved_position(printed: str) -> None:
    assert "\n16 True\n" in printed


def test_both_trainers_run(printed: str) -> None:
    assert "'train_loss'" in printed
    assert "Trainable params" in printed
