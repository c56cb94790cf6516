"""The state of a run in a checkpoint."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.errors import CheckpointError
from clozeline.train.checkpoint.state import TrainState, find_changes
from clozeline.train.checkpoint.stored_checkpoint import Index
from clozeline.train.data.stream.mixture import SkippedRows
from clozeline.train.optim.early_stopping import Best


def test_changed_keys_are_named():
    saved = TrainState(
        step=1,
        samples=1,
        frozen={
            "seed": 1,
            "optimizer.eps": 1e-6,
            "same": 2,
        },
        dataset="a",
    )
    now = TrainState(
        step=0,
        samples=0,
        frozen={
            "seed": 2,
            "optimizer.eps": 1e-8,
            "same": 2,
        },
        dataset="b",
    )
    found = find_changes(saved, now, ())

    assert [line.split(":")[0] for line in found] == ["optimizer.eps", "seed"]
    assert "1e-06 in the checkpoint, 1e-08 now" in found[0]
    assert [line.split(":")[0] for line in find_changes(saved, now, ("optimizer", "data"))] == [
        "seed"
    ]

    own = [
        TrainState(step=0, samples=0, frozen={"code.mine:A": "1", **more}, dataset="a")
        for more in ({}, {"code.b:B": "2"})
    ]

    assert find_changes(*own, ()) == [], "an algorithm of one's own that is new is named by its key"
    assert (
        len(
            find_changes(
                own[0],
                replace(own[0], frozen={"code.mine:A": "2"}),
                (),
            )
        )
        == 1
    )


@given(
    st.lists(
        st.tuples(
            st.integers(1, 9),
            st.integers(0, 50),
            st.booleans(),
        ),
        max_size=12,
    ),
    st.booleans(),
)
def test_counters_are_sums_over_the_steps(steps, with_stream):
    begun = TrainState(
        step=3,
        samples=40,
        stream={"samples": 40, "seed": 1} if with_stream else {},
        heldout_loss=1.5,
    )

    state = begun
    for rows, tokens, skipped in steps:
        state = state.advance(rows=rows, tokens=tokens, skipped=skipped)
    rows = sum(one for one, _, _ in steps)

    assert (state.step, state.samples) == (3 + len(steps), 40 + rows)
    assert state.tokens == sum(tokens for _, tokens, _ in steps)
    assert state.skipped == sum(skipped for _, _, skipped in steps)

    last_good = max(
        (number for number, (_, _, skipped) in enumerate(steps, 1) if not skipped), default=0
    )

    assert state.skipped_in_a_row == len(steps) - last_good
    assert state.stream == ({"samples": 40 + rows, "seed": 1} if with_stream else {})
    assert state.heldout_loss == (None if steps else 1.5), (
        "a loss belongs to the step it was measured at"
    )
    assert begun.samples == 40


def test_a_state_comes_back_from_its_index_and_strange_keys_are_refused():
    state = TrainState(step=3, samples=40, frozen={"seed": 1}, versions={"torch": "2"})
    index = Index(asdict(state), {}, {}, [], {})

    assert TrainState.read(index.state) == state

    with pytest.raises(CheckpointError, match="checkpoint state: colour: Unexpected keyword"):
        TrainState.read({**index.state, "colour": 1})
    with pytest.raises(CheckpointError, match="samples: Field required"):
        TrainState.read({"step": 1})


@pytest.mark.parametrize("skip_rows", [True, False])
def test_a_rollback_takes_the_step_from_the_checkpoint_and_the_rest_from_the_run(skip_rows):
    """Twice: the second return goes to an earlier step, whose own rows were never skipped."""
    best = Best("heldout/loss", 2.0, 4, 0)
    early = TrainState(
        step=4,
        samples=32,
        tokens=99,
        heldout_loss=2.0,
        best=best,
        stream={"samples": 32, "data": "a"},
    )

    late = replace(
        early, step=6, samples=48, tokens=150, heldout_loss=None, skipped=1, skipped_in_a_row=1
    )
    run = replace(
        late,
        step=9,
        samples=72,
        tokens=200,
        stream={"samples": 72, "data": "b"},
        versions={"torch": "3"},
    )

    for saved, times in ((late, 1), (early, 2)):
        run = run.advance(rows=8, tokens=9, skipped=True)
        back = run.roll_back(saved, skip_rows=skip_rows)
        position = run.samples if skip_rows else saved.samples
        expected = replace(
            saved,
            samples=position,
            stream={"samples": position, "data": "b"},
            versions={"torch": "3"},
        )

        skipped = (SkippedRows(saved.step, saved.samples, position),) if skip_rows else ()

        assert back == replace(expected, skipped_rows=skipped, rollbacks=times)
        assert back.rows == saved.samples, "rows that the weights were trained on"
        assert TrainState.read(back.as_dict()) == back

        run = back
