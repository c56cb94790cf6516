"""Curves of one run and of several; the seconds of training are counted a second way, by hand."""

import pytest

from clozeline.report.html_page import page
from clozeline.report.views import Section
from clozeline.train.logs.curves import RecordedRun, curves, read_run
from tests.pages import checked
from tests.sealed_lines import sealed


def written(folder, times, begun):
    folder.mkdir()
    lines = [
        {
            "step": step,
            "time": time,
            "loss": 3.0,
        }
        for step, time in enumerate(times, 1)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{sealed(**line)}\n" for line in lines))
    events = [{"event": event, "time": time} for event, time in begun]
    (folder / "events.jsonl").write_text("".join(f"{sealed(**event)}\n" for event in events))
    return folder


@pytest.mark.parametrize(
    ("times", "begun", "seconds"),
    [
        ([102.0, 105.0, 109.0], [("start", 100.0)], [2.0, 5.0, 9.0]),
        # killed after 105, resumed at 500: the pause is none of training
        (
            [102.0, 105.0, 503.0, 507.0],
            [("start", 100.0), ("save", 104.0), ("resume", 500.0)],
            [2.0, 5.0, 8.0, 12.0],
        ),
        # two starts that did no step that counts, and a clock that was set back
        (
            [102.0, 901.0, 900.0],
            [("start", 100.0), ("resume", 500.0), ("resume", 900.0)],
            [2.0, 3.0, 3.0],
        ),
        ([102.0, 105.0], [], [0.0, 3.0]),
    ],
)
def test_seconds_leave_out_pauses(tmp_path, times, begun, seconds):
    run = read_run(written(tmp_path / "run", times, begun), "a")
    assert [record["seconds"] for record in run.records] == seconds


def run_of(name, slope):
    records = []

    for step in range(1, 4):
        held = {"loss": 4.0 - slope * step, "unigram_entropy": 2.75, "labels": 5}
        records.append(
            {
                "step": step,
                "tokens": 100 * step,
                "seconds": 2.0 * step,
                "flops": 1e9 * step,
                "loss": 5.0 - slope * step,
                "losses": {"lm": 1.0, "cls": slope},
                "mfu": 0.5,
                "stream": {"waited_share": 0.25},
                "heldout": {"de": held, "en": held} if step > 1 else {},
            }
        )

    return RecordedRun(name, records)


def pictures(*runs):
    return checked(page(Section("runs", [*curves(runs)]))).pictures


def test_runs_share_the_axes_of_each_quantity():
    shown = pictures(run_of("slow", 0.5), run_of("fast", 1.0))
    assert {
        "Training loss (nats) over tokens: slow from 4.5 to 3.5; fast from 4 to 2",
        "Training loss of cls (nats): slow from 0.5 to 0.5; fast from 1 to 1",
    } <= {*shown}


def test_a_report_draws_what_hooks_declared_at_a_start(tmp_path):
    """Of a class that this process has never seen, too; each chart once, and damaged ones never."""
    own = {
        "name": "Largest bias",
        "keys": ["biases", "largest"],
        "unit": "nats",
        "factor": 2.0,
        "headline": True,
    }

    damaged = [
        {"name": 3},
        "x",
        {"name": "a", "keys": []},
        {"name": "", "keys": ["b"]},
        {"name": "a", "keys": ["b"], "window": 1},
    ]

    folder = tmp_path / "run"
    folder.mkdir()
    lines = [
        {
            "step": step,
            "time": 1.0 * step,
            "loss": 3.0,
            "biases": {"largest": 10.0 * step},
        }
        for step in (1, 2)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{sealed(**line)}\n" for line in lines))
    starts = [
        ("start", [own, *damaged]),
        ("resume", [own]),
        ("resume", None),
    ]
    events = [sealed(event=event, time=0.5, charts=charts) for event, charts in starts]
    (folder / "events.jsonl").write_text("".join(f"{event}\n" for event in events))
    run = read_run(folder, "a")

    assert [chart.title for chart in run.charts] == ["Largest bias (nats)"]
    assert dict(run.figures())["largest bias"] == "40 nats"
    assert (
        "Largest bias (nats): a from 20 to 40"
        in checked(page(Section("run", [*curves([run])]))).pictures
    )
