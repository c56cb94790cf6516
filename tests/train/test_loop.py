"""The order of steps, saves and evaluations, with parts that only note what is asked of them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from clozeline.errors import DivergedError
from clozeline.train import loop
from clozeline.train.checkpoint.save_pace import SavePace
from clozeline.train.checkpoint.state import TrainState
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.distributed.stopping import StopRequest
from clozeline.train.loop import TrainingJob, train
from clozeline.train.optim.early_stopping import Best
from tests.train.data.test_global_batch import ALONE, micro_batch, source
from tests.train.synthetic import tiny

START = TrainState(step=0, samples=0)


def run_of(monkeypatch, *, saves="", skipped=False, losses=(), pace=None, **changes):
    """A run whose parts write into `.log`.

    `saves` tells of each save whether it works (+) or fails (-).
    """
    heldout_losses = iter(losses)
    log = []
    told = []
    working = iter(saves)
    failed = []

    def step(_batches, _counts, number, _rate, *, weight, observe):
        log.append(f"step {number}")
        return SimpleNamespace(skipped=skipped)

    def save(_engine, state, *, wait):
        assert wait
        log.append(f"save {state.step}")
        works = next(working, "+") == "+"
        failed[:] = [] if works else ["the last one"]
        return works

    def evaluate(*_):
        log.append("evaluate")
        return SimpleNamespace(loss=next(heldout_losses, 2.5))

    def ignore(*_, **__):
        pass

    def observe_eval_losses(losses):
        told.append(losses)
        return len(losses) == 1 and len(told) > 1

    monkeypatch.setattr(loop, "evaluate", evaluate)
    monkeypatch.setattr(loop, "has_finite_loss", lambda *_: True)
    parts = {
        "engine": SimpleNamespace(
            heads={},
            divisors={},
            hooks=(),
            step=step,
            observe_eval_losses=observe_eval_losses,
            zero=SimpleNamespace(has_finite_weights=lambda: True),
        ),
        "stream": source(lambda: [micro_batch([1.0, 1.0])] * 4),
        "heldout": [SimpleNamespace(name="heldout", guesses=[])],
        "checkpoints": SimpleNamespace(
            save=save,
            score=lambda state: log.append(f"score {state.heldout_loss}"),
            is_best=lambda _: False,
            poll=lambda: not failed,
            finish=lambda: not failed,
        ),
        "recorder": SimpleNamespace(
            record_step=ignore,
            record_heldout=ignore,
            refresh_report=ignore,
            announce_averaging=lambda _: log.append("averaging"),
        ),
        "watchdog": SimpleNamespace(beat=lambda: None),
        "pace": pace or SavePace(0, by_time=False),
    }

    run = TrainingJob(tiny(**changes), ALONE, stop=StopRequest(), **parts)
    return SimpleNamespace(run=run, log=log, told=told)


def test_a_step_is_saved_before_it_is_evaluated(monkeypatch):
    found = run_of(monkeypatch, steps=3, checkpoint__every=2, evaluate__every=2)
    state = train(found.run, START)
    one_evaluation = ["evaluate", "score 2.5"]

    assert found.log == [
        "step 1",
        "step 2",
        "save 2",
        *one_evaluation,
        "step 3",
        "save 3",
        *one_evaluation,
    ]
    assert (state.step, state.samples, state.heldout_loss) == (3, 24, 2.5)


def test_an_optimizer_that_follows_held_out_losses_is_told_those_that_are_due(monkeypatch):
    """At the begin, and after each evaluation.

    That of the last step is due only because the run ends there.
    """
    chosen = {"name": "nt_asgd", "learning_rate": 0.1}
    found = run_of(monkeypatch, optimizer=chosen, steps=3, checkpoint__every=2, evaluate__every=2)
    state = train(found.run, START)

    assert found.told == [(), (2.5,), (2.5,)]
    assert state.heldout_losses == (2.5,)
    assert found.log[2:6] == ["save 2", "evaluate", "averaging", "score 2.5"]

    silent = run_of(monkeypatch, steps=4, evaluate__every=2)

    assert train(silent.run, START).heldout_losses == ()
    assert silent.told == [(), (), ()]


def test_the_end_is_saved_until_it_works(monkeypatch):
    """A save in the middle may fail; the next one is due at its own step."""
    found = run_of(monkeypatch, saves="--+", steps=4, checkpoint__every=3)
    train(found.run, START)

    assert [entry for entry in found.log if entry.startswith("save")] == [
        "save 3",
        "save 4",
        "save 4",
    ]


def test_a_resumed_run_makes_up_for_its_evaluation(monkeypatch):
    found = run_of(monkeypatch, steps=2)
    train(found.run, TrainState(step=2, samples=16))
    assert found.log == ["evaluate", "score 2.5"]
    assert found.run.is_complete(TrainState(step=2, samples=16, heldout_loss=2.5))


@pytest.mark.parametrize(
    ("change", "state", "message"),
    [
        ({}, {}, "set on_divergence={} to go back to a checkpoint and skip the rows since then"),
        ({"on_divergence": {}}, {}, "no checkpoint is from before it: lower checkpoint.every"),
        (
            {"on_divergence": {"max_rollbacks": 2}},
            {"rollbacks": 2},
            r"2 rollbacks did not help \(on_divergence.max_rollbacks\)",
        ),
    ],
)
def test_a_run_that_cannot_return_ends_and_says_why(monkeypatch, change, state, message):
    found = run_of(monkeypatch, skipped=True, steps=40, max_consecutive_skips=3, **change)
    asked = []
    found.run.checkpoints.find_earlier = lambda before, back: asked.append((before, back))
    with pytest.raises(DivergedError, match=message):
        train(
            found.run,
            replace(
                START,
                step=7,
                skipped_rows=(SkippedRows(2, 16, 24),),
                **state,
            ),
        )

    assert asked == ([(7, 1)] if "no checkpoint" in message else []), (
        "from before step 7, whose weights gave nothing"
    )


EARLY = {"metric": "heldout/loss", "patience": 2}


def test_a_run_ends_early_and_every_evaluated_step_was_saved(monkeypatch):
    """The best is at step 4.

    Two evaluations later the run is complete, long before its last step.
    """
    found = run_of(
        monkeypatch,
        losses=[3.0, 2.0, 2.0, float("nan")],
        steps=99,
        checkpoint__every=None,
        evaluate__every=2,
        early_stop=EARLY,
    )

    state = train(found.run, START)

    assert (state.step, state.best) == (8, Best("heldout/loss", 2.0, 4, 2))
    assert [entry for entry in found.log if not entry.startswith("step")] == [
        *("save 2", "evaluate", "score 3.0", "save 4", "evaluate", "score 2.0"),
        *("save 6", "evaluate", "score 2.0", "save 8", "evaluate", "score nan"),
    ]

    again = run_of(monkeypatch, steps=200, evaluate__every=2, early_stop=EARLY)

    assert train(again.run, state) == state
    assert again.log == []

    patient = run_of(
        monkeypatch, losses=[1.0], steps=10, evaluate__every=2, early_stop={**EARLY, "patience": 3}
    )

    assert train(patient.run, state).best == Best("heldout/loss", 1.0, 10, 0)


@pytest.mark.parametrize(
    ("at", "done", "saves"),
    [
        (["0.25k tokens", "264 tokens"], 0, [2, 4]),
        (["264 tokens"], 2, [4]),
        (["265 tokens", "66 words"], 0, [1, 3, 4]),
    ],
)
def test_steps_that_reach_a_number_of_tokens_are_saved(monkeypatch, at, done, saves):
    """A step has 4 x 33 tokens: 132, 264, 396, 528; the last step is saved in any case."""
    per_word = 2.0 if any("words" in entry for entry in at) else None
    found = run_of(
        monkeypatch,
        steps=4,
        checkpoint__every=None,
        checkpoint__at=at,
        checkpoint__tokens_per_word=per_word,
    )

    assert (
        train(found.run, TrainState(step=done, samples=8 * done, tokens=132 * done)).tokens == 528
    )
    assert [entry for entry in found.log if entry.startswith("save")] == [
        f"save {step}" for step in saves
    ]


class Clock:
    """A clock that a save moves by 3 seconds, and a step by 30."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("clozeline.train.checkpoint.save_pace.time.monotonic", lambda: self.now)


def test_saves_by_time_come_after_a_minute_and_then_take_two_per_cent(monkeypatch):
    """Steps of 30 seconds: the first save after 60 of them, the next after 49 times its 3 seconds,
    147: 5 steps."""
    clock = Clock(monkeypatch)
    pace = SavePace(0, by_time=True)
    found = run_of(monkeypatch, pace=pace, steps=14, evaluate__max_rows=0)
    step = found.run.engine.step
    save = found.run.checkpoints.save

    def slow_step(*arguments, **options):
        clock.now += 30
        return step(*arguments, **options)

    def slow_save(*arguments, **options):
        clock.now += 3
        return save(*arguments, **options)

    found.run.engine.step = slow_step
    found.run.checkpoints.save = slow_save
    train(replace(found.run, heldout=[]), START)

    assert [entry for entry in found.log if entry.startswith("save")] == [
        "save 3",
        "save 9",
        "save 14",
    ]


def test_other_ranks_never_ask(monkeypatch):
    clock = Clock(monkeypatch)
    paces = [
        SavePace(0, by_time=True),
        SavePace(1, by_time=True),
        SavePace(0, by_time=False),
    ]
    clock.now = 1e6

    assert [pace.is_due() for pace in paces] == [True, False, False]

    paces[0].note_save(0.001)
    clock.now += 59

    assert not paces[0].is_due(), "a minute at least"

    clock.now += 1

    assert paces[0].is_due()


def test_no_regular_save_while_a_divergence_may_go_on(monkeypatch):
    """Else the checkpoint to return to would be pruned."""
    found = run_of(monkeypatch, steps=9, checkpoint__every=1)
    found.run.pace.is_agreed = True
    assert not found.run.is_save_due(replace(START, step=1, skipped_in_a_row=1), 0)
    assert found.run.is_save_due(replace(START, step=1), 0)
