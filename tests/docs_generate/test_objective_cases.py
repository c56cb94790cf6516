import numpy as np
import pytest

from clozeline import registry
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.corrupt.preview.words import Words, sample_rows_of
from docs.generate.objective_cases import _CASES, EVERY_WORD, Case, cases_of, texts_for

WORDS = Words(EVERY_WORD)


@pytest.mark.parametrize("name", registry.names("clozeline.pipeline.corrupt.objectives"))
def test_what_is_shown_can_be_undone(name):
    for case in cases_of(name):
        objective = build_objective({"name": name, **case.options}, WORDS.vocabulary)
        sample = sample_rows_of(objective, WORDS, case.texts or texts_for(objective)).take(np.array([0]))
        examples, _ = objective.corrupt(sample, np.array([case.variant], np.uint16), seed=1)
        example = examples.row(0)
        assert objective.uncorrupt(example).tolist() == objective.original(sample.row(0), example).tolist()


def test_cases_belong_to_objectives_and_differ():
    known = registry.names("clozeline.pipeline.corrupt.objectives")
    assert set(_CASES) <= set(known)
    for name in known:
        cases = cases_of(name)
        assert len({repr(case) for case in cases}) == len(cases)
        for text in (text for case in cases for text in case.texts):
            WORDS.ids(" ".join([*text.sentences, text.target]))
    assert cases_of("not there") == (Case(),)
