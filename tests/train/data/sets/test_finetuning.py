"""Steps, learning rate and seeds of a fine-tuning, next to published ones and to counts by hand."""

import pytest

from clozeline.train.data.sets.finetuning import plan_learning_rate, plan_seeds, plan_task_steps


@pytest.mark.parametrize(
    ("width", "lowest", "highest"),
    [
        (1024, 1e-5, 5e-5),  # BERT large, BERT base: 2e-5 to 5e-5 (arXiv 1810.04805)
        (768, 2e-5, 5e-5),
        (512, 4e-5, 1e-4),
        (256, 1e-4, 5e-4),  # 3e-5 and 1e-2 were worse on development rows
        (128, 7e-4, 3e-3),
        (64, 1e-3, 3e-3),
        (16, 1e-3, 3e-3),
    ],
)
def test_narrow_bodies_have_higher_learning_rates(width, lowest, highest):
    assert lowest <= plan_learning_rate(width) <= highest


@pytest.mark.parametrize(
    ("rows", "batch", "steps"),
    [
        (392_702, 32, 36_816),  # MNLI, three epochs
        (6_920, 32, 649),  # SST-2's sentences, three epochs
        (2_000, 32, 500),
        (1_000, 32, 500),  # 16 epochs
        (250, 32, 125),
        (400, 16, 400),
        (40, 32, 40),  # room for a warm-up
    ],
)
def test_steps_are_passes_over_the_rows(rows, batch, steps):
    assert plan_task_steps(rows, batch) == steps


def test_few_rows_need_more_seeds():
    assert [
        plan_seeds(rows)
        for rows in (
            40,
            1_000,
            1_001,
            10_000,
            10_001,
            10**6,
        )
    ] == [
        5,
        5,
        3,
        3,
        1,
        1,
    ]
