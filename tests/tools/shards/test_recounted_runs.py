"""Every counter of a run is computed in two ways, by its stage and by a test."""

import pytest

from tests.pipeline.run_counts import check_run
from tests.pipeline.task_files import make_question_sets, make_sets, make_tagged_sets, make_text_sets

STAGES = ["clean", "dedup", "train_tokenizer", "encode", "group", "corrupt"]


def test_a_run_agrees(whole):
    assert check_run(whole).keys() == {*STAGES}


@pytest.mark.parametrize("make", [make_sets, pytest.param(make_tagged_sets, marks=pytest.mark.slow),
                                  pytest.param(make_question_sets, marks=pytest.mark.slow),
                                  pytest.param(make_text_sets, marks=pytest.mark.slow)])  # fmt: skip
def test_the_counts_of_a_task_agree(tmp_path, make):
    assert check_run(make(tmp_path).parents[1])
