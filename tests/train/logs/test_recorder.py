"""What a recorder writes at the end of a run, and how often it writes the page before."""

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from clozeline.train.checkpoint.state import TrainState
from clozeline.train.logs import recorder
from clozeline.train.logs.report import closing_lines
from tests.sealed_lines import sealed
from tests.train.synthetic import tiny


@pytest.mark.parametrize(("complete", "code", "event"), [(True, 0, "done"), (False, 75, "stop")])
def test_the_end_has_an_exit_code_and_a_report_despite_damaged_records(
    complete, code, event, tmp_path, monkeypatch
):
    monkeypatch.setattr(recorder, "memory_by_rank", lambda _engine: [])
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1\n{sealed(step=2, loss=0.5)}\n')
    world = SimpleNamespace(rank=0)
    engine = SimpleNamespace(config=tiny(output=str(tmp_path), log__spike=None), world=world)
    journal = Mock()
    display = Mock()
    one = recorder.Recorder(engine, Mock(), journal, display, Mock(), Mock())

    assert one.finish(TrainState(step=2, samples=16), complete, None) == code
    assert [call.args[0] for call in journal.event.call_args_list] == ["memory", event]
    assert journal.event.call_args.kwargs["reason"] == (
        None if complete else "asked on another rank"
    )

    said = [call.args[0] for call in display.say.call_args_list]
    state = TrainState(step=2, samples=16)

    assert said == [
        *closing_lines(engine.config, state, None if complete else "asked on another rank"),
        f"report {tmp_path / 'report.html'}",
    ]


def test_a_resumed_run_finds_a_spike_by_its_records(tmp_path):
    """The event has the rows of the step, and the command that prints them."""
    losses = [sealed(step=step, loss=1.0 + step % 3 / 100) for step in range(1, 40)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{line}\n" for line in losses))
    engine = SimpleNamespace(config=tiny(output="my runs"), world=SimpleNamespace(rank=0))
    health = Mock(origins=lambda first, rows: [first, rows])
    journal = Mock(directory=tmp_path)
    one = recorder.Recorder(engine, health, journal, Mock(), Mock(), Mock())
    one._detect_spikes({"step": 40, "samples": 320, "loss": 9.0}, 8)

    (event,) = journal.event.call_args_list

    assert event.args == ("spike",)
    assert event.kwargs["loss"]["value"] == 9.0
    assert event.kwargs["rows_source_block_row"] == [312, 8]
    assert event.kwargs["command"] == "clozeline explain-batch run='my runs' step=40"


def test_a_step_that_is_not_logged_is_counted():
    journal = Mock()
    result = Mock(skipped=False)
    one = recorder.Recorder(
        Mock(config=tiny(log__spike=None)), Mock(), journal, Mock(), Mock(), Mock()
    )
    one.record_step(
        TrainState(step=2, samples=16),
        Mock(tokens=5),
        result,
        0.1,
        1.0,
        1.0,
        log=False,
    )

    journal.count.assert_called_once_with(steps=1, tokens=5, skipped_steps=0)


def test_pages_while_training_cost_at_most_a_hundredth(monkeypatch):
    """Pages of 2 s each, saves every 10 s: the first at once, the next ones at least 198 s after
    the end of one."""
    now = [0.0]
    written = []

    def draw(_):
        written.append(now[0])
        now[0] += 2.0

    monkeypatch.setattr(recorder, "write_report", draw)
    monkeypatch.setattr(recorder, "time", SimpleNamespace(monotonic=lambda: now[0]))
    engine = SimpleNamespace(config=tiny(log__spike=None), world=SimpleNamespace(rank=0))
    one = recorder.Recorder(engine, Mock(), Mock(), Mock(), Mock(), Mock())
    for save in range(1, 61):
        now[0] = max(now[0], 10.0 * save)
        one.refresh_report()

    assert written == [10.0, 210.0, 410.0]
