from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from clozeline.sealed_json import seal
from clozeline.train.configuration.logs import LogConfig
from clozeline.train.logs import json_lines as lines
from clozeline.train.logs.journal import Journal, numbers
from clozeline.train.logs.json_lines import last_lines, read_lines
from clozeline.train.logs.spikes import Spikes
from tests.sealed_lines import sealed

QUIET = LogConfig(tensorboard=False)


def test_metrics_after_the_checkpoint_are_cut_off(tmp_path: Path) -> None:
    """Also a line that a kill tore in two."""
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    for step in range(1, 6):
        journal.step({"step": step, "loss": 0.1 + step})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    Journal(tmp_path, QUIET, 0).begin(3)
    assert read_lines(tmp_path / "metrics.jsonl") == [{"step": step, "loss": 0.1 + step} for step in (1, 2, 3)]


def test_events_in_the_place_of_metrics_are_lines_that_cannot_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    journal.event("data", step=1)
    journal.event("phase", step=2)
    (tmp_path / "events.jsonl").rename(tmp_path / "metrics.jsonl")
    assert Journal(tmp_path, QUIET, 0).begin(2) == 2
    assert read_lines(tmp_path / "metrics.jsonl") == []


def test_results_join_the_object_of_their_step(tmp_path: Path) -> None:
    """Also after a restart; where the step has no object, or it could not be written, they are one of their own."""
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    journal.step({"step": 2, "loss": 0.5})
    journal.extend({"step": 3, "samples": 24}, {"heldout": {"a": float("nan")}})
    assert read_lines(tmp_path / "metrics.jsonl")[1] == {"step": 3, "samples": 24, "heldout": {"a": None}}
    (tmp_path / "metrics.jsonl").write_text(f"{sealed(step=3, loss=0.5)}\n")
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(3)
    journal.extend({"step": 3, "samples": 24}, {"heldout": {}})
    journal.step({"step": 4, "loss": 0.25})
    (tmp_path / "metrics.jsonl").rename(tmp_path / "kept")
    (tmp_path / "metrics.jsonl").mkdir()
    journal.step({"step": 5, "loss": 0.125})
    (tmp_path / "metrics.jsonl").rmdir()
    (tmp_path / "kept").rename(tmp_path / "metrics.jsonl")
    journal.extend({"step": 5, "samples": 40}, {"heldout": {}})
    assert read_lines(tmp_path / "metrics.jsonl") == [
        {"step": 3, "loss": 0.5, "heldout": {}},
        {"step": 4, "loss": 0.25},
        {"step": 5, "samples": 40, "heldout": {}},
    ]


def test_results_that_come_again_replace_the_former_ones(tmp_path: Path) -> None:
    """A kill came between them and the checkpoint: the same step is evaluated again, with fewer figures this time."""
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    journal.step({"step": 1, "loss": 0.5})
    journal.step({"step": 2, "loss": 1 / 3})
    journal.extend({"step": 2, "samples": 16}, {"heldout": {"a": 1.25, "b": 0.125}})
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(2)
    journal.extend({"step": 2, "samples": 16}, {"heldout": {"a": 1.0}})
    journal.step({"step": 3, "loss": 0.25})
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    assert read_lines(tmp_path / "metrics.jsonl") == [
        {"step": 1, "loss": 0.5},
        {"step": 2, "loss": 1 / 3, "heldout": {"a": 1.0}},
        {"step": 3, "loss": 0.25},
    ]


def line_of(record: dict[str, Any]) -> bytes:
    return f"{json.dumps(seal(record))}\n".encode()


def test_a_resume_reads_the_end_of_the_metrics_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 20,000 records, those after the checkpoint and those that a step is compared with."""
    path, parsed = tmp_path / "metrics.jsonl", 0
    records = [{"step": step, "loss": 1.0 + step % 7, "gradient_norm": 2.0} for step in range(1, 20_001)]
    path.write_bytes(b"".join(map(line_of, records)))
    size, real = path.stat().st_size, lines._parse

    def count(line: bytes, path: Path) -> dict[str, Any] | None:
        nonlocal parsed
        parsed += 1
        return real(line, path)

    monkeypatch.setattr(lines, "_parse", count)
    assert Journal(tmp_path, QUIET, 0).begin(19_990) == 0
    resumed = Spikes(6.0, (line.record or {} for line in last_lines(path)))
    assert parsed == 11 + 200
    monkeypatch.undo()
    assert size - path.stat().st_size == sum(len(line_of(one)) for one in records[19_990:])
    straight = Spikes(6.0, reversed(records[:19_990]))
    assert resumed._values == straight._values
    assert [one["step"] for one in read_lines(path)] == list(range(1, 19_991))


def test_a_last_line_without_its_end_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{sealed(step=1)}\n{sealed(step=2)}")
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(2)
    journal.extend({"step": 2}, {"heldout": {}})
    journal.step({"step": 3})
    assert read_lines(path) == [{"step": 1}, {"step": 2, "heldout": {}}, {"step": 3}]


def test_a_torn_line_in_the_middle_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(f'{sealed(step=1)}\n{{"step": 2, "lo\n{sealed(step=3)}\n{{"ste')
    assert read_lines(tmp_path / "metrics.jsonl") == [{"step": 1}, {"step": 3}]


def test_events_before_the_begin_are_written_then(tmp_path: Path) -> None:
    """With the time at which they happened; a start that is refused writes none."""
    journal = Journal(tmp_path, QUIET, 0)
    journal.event("checkpoint_refused", checkpoint="step-00000004")
    assert list(tmp_path.iterdir()) == []
    before = journal.now()
    journal.begin(2)
    journal.event("resume", step=2)
    first, second = read_lines(tmp_path / "events.jsonl")
    assert (first["event"], first["checkpoint"], second["event"]) == ("checkpoint_refused", "step-00000004", "resume")
    assert first["time"] <= before <= second["time"]


def test_a_resumed_run_draws_the_steps_after_its_checkpoint_again(tmp_path: Path) -> None:
    """As TensorBoard reads its files; so does one that goes back while it runs, also to before its first record."""
    for begun in (0, 3):
        journal = Journal(tmp_path, LogConfig(), 0)
        journal.begin(begun)
        for rewound in (True, False):
            if rewound:
                journal.step({"step": begun + 1, "loss": -1.0})
                journal.rewind(begun)
                assert [line["step"] for line in read_lines(tmp_path / "metrics.jsonl")] == list(range(1, begun + 1))
                journal.extend({"step": begun + 1, "loss": -2.0}, {"heldout": 1.0})
                journal.rewind(begun)
        for step in range(begun + 1, 6):
            journal.step({"step": step, "loss": 10.0 * begun + step})
        journal.close()
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload().Scalars("loss")
    assert [(one.step, one.value) for one in found] == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 34.0), (5, 35.0)]


def test_the_scalars_of_a_step_are_one_event(tmp_path: Path) -> None:
    """TensorBoard shows each under its own tag."""
    journal = Journal(tmp_path, LogConfig(), 0)
    journal.begin(0)
    journal.step({"step": 1, "loss": 0.5, "losses": {"masked lm": 0.25}, "skipped": 0, "state": "text"})
    journal.close()
    (file,) = (tmp_path / "tensorboard").iterdir()
    found = [[value.tag for value in event.summary.value] for event in EventFileLoader(str(file)).Load()]
    assert [tags for tags in found if tags] == [["step", "loss", "losses/masked lm", "skipped"]]
    board = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [one.value for tag in ("loss", "losses/masked lm") for one in board.Scalars(tag)] == [0.5, 0.25]


def test_lines_that_are_left_out_are_counted(tmp_path: Path) -> None:
    """Torn ones and those of no step; a blank one holds nothing."""
    lines = (sealed(step=1), "", sealed(loss=2.0), sealed(step="2"), '{"step": 2, "lo', "")
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    assert Journal(tmp_path, QUIET, 0).begin(2) == 3
    assert read_lines(tmp_path / "metrics.jsonl") == [{"step": 1}]


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
def test_a_changed_digit_is_no_other_value(tmp_path: Path, name: str) -> None:
    """It costs the line: every digit of it, also one of its hash."""
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    for step in (1, 2):
        journal.step({"step": step, "loss": 3.25, "samples": 8 * step})
        journal.event("save", step=step)
    path = tmp_path / name
    whole, (first, second) = path.read_bytes(), read_lines(path)
    for place in range(whole.index(b"\n")):
        if chr(whole[place]).isdigit():
            path.write_bytes(whole[:place] + b"%d" % ((whole[place] - 47) % 10) + whole[place + 1 :])
            assert read_lines(path) in ([second], [first, second])  # the last digit of a time may be too fine to count
    path.write_bytes(whole.replace(b'"step": 2', b'"step": 7'))
    assert read_lines(path) == [first]
    assert Journal(tmp_path, QUIET, 0).begin(2) == (name == "metrics.jsonl")


def test_losses_keep_every_bit(tmp_path: Path) -> None:
    journal = Journal(tmp_path, QUIET, 0)
    values = [0.1, 1 / 3, 3.9010462760925293, 2**-40]
    for step, value in enumerate(values):
        journal.step({"step": step, "loss": value})
    assert [line["loss"].hex() for line in read_lines(tmp_path / "metrics.jsonl")] == [value.hex() for value in values]


def test_numbers_that_are_not_finite_become_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path, QUIET, 0)
    written = {"step": 1, "loss": None, "losses": {"lm": None}}
    journal.step({"step": 1, "loss": float("nan"), "losses": {"lm": float("inf")}})
    assert read_lines(tmp_path / "metrics.jsonl") == [written]
    journal.extend({"step": 1}, {"heldout": {"dev": float("nan")}})
    assert read_lines(tmp_path / "metrics.jsonl") == [{**written, "heldout": {"dev": None}}]


def test_only_the_first_rank_writes(tmp_path: Path) -> None:
    journal = Journal(tmp_path, QUIET, 1)
    journal.begin(0)
    journal.step({"step": 1})
    journal.event("start")
    journal.status("running")
    assert list(tmp_path.iterdir()) == []


def test_folder_that_cannot_be_written_costs_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = Journal(tmp_path / "gone", QUIET, 0)
    (tmp_path / "gone").mkdir()
    journal.begin(0)
    shutil.rmtree(tmp_path / "gone")
    journal.step({"step": 1})
    journal.event("save", step=1)
    journal.status("running")
    error = capsys.readouterr().err
    assert error.count("metrics cannot be written") == 1
    assert "training continues" in error


def test_status_is_replaced_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path, QUIET, 0)
    journal.begin(0)
    journal.status("running", step=3, checkpoint="step-00000002")
    journal.status("stopped", exit_code=75)
    found = json.loads((tmp_path / "status.json").read_text())
    assert (found["state"], found["step"], found["checkpoint"], found["exit_code"]) == (
        "stopped",
        3,
        "step-00000002",
        75,
    )
    assert not list(tmp_path.glob(".status*"))


def test_numbers_of_a_nested_record() -> None:
    record = {"step": 1, "losses": {"lm": 2.5}, "heldout": {"a": {"loss": 1.0}}, "name": "x", "flag": True}
    assert numbers(record) == {"step": 1, "losses/lm": 2.5, "heldout/a/loss": 1.0}


@pytest.mark.parametrize("name", ["metrics.jsonl", "events.jsonl"])
def test_no_record_goes_through_a_link(tmp_path: Path, name: str) -> None:
    """Somebody else who may write to the folder has linked a file of ours there."""
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine\n")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(victim)
    journal = Journal(tmp_path / "run", QUIET, 0)
    with suppress(OSError):
        journal.begin(0)
        journal.event("start")
    assert victim.read_bytes() == b"mine\n"
