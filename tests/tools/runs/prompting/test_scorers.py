"""Modes that the training prepared_scores, and refusals of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.tools.runs.prompting.scorers import Cloze, open_scorer, prepared_modes
from tests.tools.runs.inference.test_text_likelihoods import facts
from tests.tools.runs.prompting.prompted_runs import prompted_run


def test_what_an_objective_prepares() -> None:
    assert prepared_modes(facts("encoder")) == ("cloze",)
    assert prepared_modes(facts("encoder", predict_from="previous")) == ("cloze",)
    assert prepared_modes(facts("encoder", "causal_lm", predict_from="previous")) == ("causal",)
    assert prepared_modes(facts("decoder", "causal_lm", ("lm",))) == ("causal",)
    assert prepared_modes(facts("encoder_decoder", "text_to_text", ("lm",))) == ("answer",)
    assert prepared_modes(facts("encoder", "tasks", ("classification",))) == ()


def test_another_mode_is_refused(shard_sets: Path, tmp_path: Path) -> None:
    trained = prompted_run(tmp_path, shard_sets, "cloze")
    scorer, mode = open_scorer(tmp_path, trained, None)
    assert (type(scorer), mode) == (Cloze, "cloze")
    with pytest.raises(ConfigurationError, match=r"mode=causal: the run was not trained for it.* by cloze"):
        open_scorer(tmp_path, trained, "causal")
