"""What a run is told about its losses, on pairs of losses that were written down with their
answers."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from clozeline.train.logs import diagnosis
from clozeline.train.logs.diagnosis import (
    Diagnosis,
    LossHistory,
    describe_lowest,
    diagnose,
    explain_diagnosis,
    loss_history,
)
from tests.train.synthetic import tiny

STEPS = (100, 200, 300, 400)


def losses(*values):
    return list(zip(STEPS, values, strict=False))


# name: training losses, held-out losses, (unigram entropy, accuracy, majority), finding: what a
# teacher would say
CASES = {
    # classification, two classes: entropy 0.6931
    "class: learned by heart, and still 0.81 right": (
        (0.6, 0.2, 0.01, 0.0005),
        (0.55, 0.6, 0.8, 0.97),
        (0.6931, 0.81, 0.5),
        Diagnosis.MEMORIZED,
    ),
    "class: by heart, evaluated at the end alone": (
        (0.6, 0.2, 0.01, 0.0005),
        (0.97,),
        (0.6931, 0.81, 0.5),
        Diagnosis.MEMORIZED,
    ),
    "class: by heart, and no better than the majority": (
        (0.6, 0.2, 0.01, 0.0005),
        (0.7, 0.9, 1.5, 2.0),
        (0.6931, 0.5, 0.5),
        Diagnosis.MEMORIZED,
    ),
    "class: always the majority": (
        (0.69, 0.69, 0.69, 0.69),
        (0.693, 0.693, 0.693, 0.692),
        (0.6931, 0.52, 0.52),
        Diagnosis.MAJORITY,
    ),
    "class: worse than the majority": (
        (0.69, 0.69, 0.69, 0.69),
        (0.7, 0.7, 0.7, 0.7),
        (0.6931, 0.48, 0.52),
        Diagnosis.BELOW_MAJORITY,
    ),
    "class: too sure of its errors, but learning": (
        (0.7, 0.65, 0.6, 0.55),
        (0.8, 0.75, 0.72, 0.70),
        (0.6931, 0.66, 0.5),
        None,
    ),
    "class: learned": (
        (0.6, 0.4, 0.3, 0.25),
        (0.6, 0.45, 0.4, 0.38),
        (0.6931, 0.84, 0.5),
        None,
    ),
    "class: a training loss far below, and a held-out loss that still falls": (
        (0.6, 0.2, 0.05, 0.01),
        (0.6, 0.4, 0.3, 0.28),
        (0.6931, 0.9, 0.5),
        None,
    ),
    # tagging: most tags are O
    # regression: no classes, so no entropy and no majority
    "numbers: learned by heart": (
        (1.5, 0.4, 0.05, 0.004),
        (1.3, 1.1, 1.2, 1.4),
        (0.0, None, None),
        Diagnosis.MEMORIZED,
    ),
    "numbers: learned": (
        (1.5, 0.9, 0.7, 0.6),
        (1.4, 1.0, 0.85, 0.8),
        (0.0, None, None),
        None,
    ),
    # pretraining: a vocabulary
    "texts: training falls while held-out rises": (
        (5.6, 5.0, 4.2, 3.5),
        (5.54, 5.6, 5.75, 5.93),
        (6.05, None, None),
        Diagnosis.MEMORIZED,
    ),
    "texts: both rise, which is a divergence": (
        (5.0, 4.6, 5.2, 5.8),
        (5.1, 4.7, 5.3, 5.9),
        (6.05, None, None),
        None,
    ),
    "texts: ended without a finite loss": (
        (5.0, 4.6, 4.2, 3.9),
        (5.1, 4.7, 4.5, math.inf),
        (6.05, None, None),
        None,
    ),
    "texts: never a finite loss": (
        (5.0, 4.6, 4.2, 3.9),
        (math.inf, math.inf, math.inf, math.inf),
        (6.05, None, None),
        None,
    ),
    "texts: frequencies alone": (
        (6.3, 6.1, 6.08, 6.07),
        (6.3, 6.1, 6.08, 6.07),
        (6.05, None, None),
        Diagnosis.FREQUENCIES,
    ),
    "texts: not even the frequencies": (
        (7.5, 6.9, 6.7, 6.6),
        (7.5, 6.9, 6.7, 6.6),
        (6.05, None, None),
        Diagnosis.ABOVE_FREQUENCIES,
    ),
    "texts: learned": (
        (6.0, 5.0, 4.4, 4.1),
        (6.0, 5.1, 4.6, 4.4),
        (6.05, None, None),
        None,
    ),
    "texts: the last evaluation is worse by rounding": (
        (6.0, 5.0, 4.4, 4.1),
        (6.0, 5.1, 4.60, 4.61),
        (6.05, None, None),
        None,
    ),
}


def case_of(name):
    """Return the history of a case, and its finding; a single held-out loss is that of the end."""
    training, heldout, labels, finding = CASES[name]
    known = list(zip(STEPS[-len(heldout) :], heldout, strict=True))
    return LossHistory(losses(*training), known, *labels), finding


@pytest.mark.parametrize("name", CASES)
def test_both_losses_and_the_accuracy_decide(name):
    history, finding = case_of(name)
    assert diagnose(history) is finding


def told(history, *, are_labeled, tokens=10**9, **keys):
    return " ".join(
        explain_diagnosis(history, tiny(steps=400, **keys), are_labeled=are_labeled, tokens=tokens)
    )


@pytest.mark.parametrize("name", CASES)
def test_no_remedy_names_a_value_that_is_set(name):
    """The rate 1e-3 was given, and 400 steps: neither is proposed, whatever the finding."""
    history, finding = case_of(name)
    text = told(history, are_labeled=history.entropy < 1, optimizer__learning_rate=1e-3)

    assert bool(text) == (finding is not None)
    assert "=1e-3" not in text
    assert "=0.001" not in text
    assert "steps=400" not in text


def test_rows_learned_by_heart_need_more_rows_or_the_best_step():
    text = told(case_of("class: learned by heart, and still 0.81 right")[0], are_labeled=True)
    assert all(part in text for part in ("0.0005", "0.9700", "steps=100", "more rows"))
    once = told(case_of("class: by heart, evaluated at the end alone")[0], are_labeled=True)
    assert "evaluate.every=40 checkpoint.keep_best=true" in once


def test_fewer_steps_are_not_proposed_where_the_accuracy_still_rose():
    """A loss may rise because the model is surer of its errors, while it makes fewer of them."""
    history = case_of("class: learned by heart, and still 0.81 right")[0]
    rising = told(replace(history, accuracy_at_lowest=0.75), are_labeled=True)
    assert "more rows" in rising
    assert "steps=100" not in rising
    assert "steps=100" in told(replace(history, accuracy_at_lowest=0.83), are_labeled=True)


@pytest.mark.parametrize("other", [{}, {"predict_from": "previous"}])
def test_the_training_loss_of_a_mixture_is_compared_with_none(monkeypatch, other):
    """It is of the labels of all sets, a held-out loss of those of one."""
    objectives = ({}, other)
    sets = [
        SimpleNamespace(objective=SimpleNamespace(name="masked_lm", **each)) for each in objectives
    ]
    monkeypatch.setattr(diagnosis, "read_sets", lambda _: sets)
    result = {"unigram_entropy": 9.0, "labels": 9}
    records = [{"step": 1, "loss": 0.1, "heldout": {"heldout": {**result, "loss": 5.0}}}]

    text = " ".join(diagnosis.diagnose_run(tiny(), records))

    assert ("learned by heart" in text) == (not other)


def test_the_lowest_value_is_named_with_its_step():
    risen, fallen = (
        case_of(f"texts: {name}")[0] for name in ("training falls while held-out rises", "learned")
    )
    (line,) = describe_lowest(risen, [100, 400])

    assert all(part in line for part in ("5.5400", "step 100", "rising since", "step=best"))

    (lost,) = describe_lowest(risen, [400])

    assert "there is no checkpoint of it: checkpoint.keep_best=true" in lost
    assert "step=best" not in lost

    (line,) = describe_lowest(fallen, [400])

    assert "4.4000 at step 400" in line
    assert "rising" not in line
    assert describe_lowest(LossHistory(losses(1.0), [(400, 1.0)]), [400]) == []


def test_records_become_the_losses_of_a_set():
    """Steps and evaluations are lines of their own; a loss that is not finite is null.

    Other sets are left out.
    """
    other = {"loss": 9.0, "labels": 1, "unigram_entropy": 1.0}
    found = {
        "loss": 0.9,
        "labels": 5,
        "unigram_entropy": 0.6931,
        "losses": {"classification": 0.9},
        "figures": {"classification/accuracy": 0.81},
        "majorities": {"classification": 0.5},
    }

    records = [
        {"step": 1, "loss": 0.5},
        {
            "step": 1,
            "heldout": {"dev": {**found, "loss": None}, "other": other},
        },
        {"step": 2, "loss": None},
        {"step": 3, "loss": 0.1},
        {"step": 3, "heldout": {"dev": found, "other": other}},
    ]

    assert loss_history(records, "dev") == LossHistory(
        [(1, 0.5), (3, 0.1)], [(1, math.inf), (3, 0.9)], 0.6931, 0.81, 0.5, 0.81
    )
    assert loss_history(records[:1], "dev") == LossHistory([(1, 0.5)], [])

    two = {**found, "losses": {"classification": 0.5, "masked_lm": 0.4}}

    assert loss_history([{"step": 3, "heldout": {"dev": two}}], "dev").accuracy is None
