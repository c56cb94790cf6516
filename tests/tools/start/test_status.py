"""`clozeline status` against what the run reported otherwise: its report, its message, its end."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from clozeline.checksummed_json import add_checksum
from clozeline.files import HOST
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.execution.recipe_command import run_stage
from clozeline.run_status import read_status
from clozeline.tools.start.status import main as show_status

GOOD = "The river rose all night. Nobody slept in the village. Men carried sand to the bridge. "
SHORT = "Too short"


def words_of(folder, texts):
    lines = [json.dumps({"text": f"{number} {text}"}) for number, text in enumerate(texts)]
    (folder / "in.jsonl").write_text("\n".join([*lines, "{broken"]), encoding="utf-8")
    filters = "clean.filters=[{name: gopher_quality, words: [10, 1000]}]"
    return [f"input={folder}/in.jsonl", f"output={folder}/out", "clean.language=null", filters]


def shown(folder, capsys):
    code = show_status([str(folder / "out"), "json=true"])
    return code, json.loads(capsys.readouterr().out)


def test_a_finished_run_says_what_its_report_says(tmp_path, capsys):
    words = words_of(tmp_path, [GOOD * 3] * 30 + [SHORT] * 10)

    assert run_stage("clean", words) == 0

    capsys.readouterr()
    code, status = shown(tmp_path, capsys)
    report = json.loads((tmp_path / "out/clean/report.json").read_text(encoding="utf-8"))
    counts = report["counts"]
    read = counts["documents_in"]
    damaged = sum(counts["malformed"].values())

    assert (code, status["state"], status["exit_code"], status["ended"]) == (0, "done", 0, False)
    assert (status["stage"], status["units_left"]) == ("clean", 0)
    assert (read, damaged) == (40, 1)
    assert status["dropped_shares"]["documents"] == (read - counts["documents_out"]) / read == 0.25
    assert status["dropped_shares"]["records"] == damaged / counts["records_in"]

    assert show_status([str(tmp_path / "out")]) == 0

    table = capsys.readouterr().out

    assert "25.0 %" in table
    assert f"process {status['pid']} on" in table


@pytest.mark.parametrize("cut", [[], ["plan.unit_bytes=4096"]], ids=["one unit", "many"])
def test_a_run_tells_the_share_of_bytes_of_one_line_that_is_too_long(tmp_path, capsys, cut):
    words = words_of(tmp_path, [GOOD] * 200)
    path = tmp_path / "in.jsonl"
    short = path.read_bytes().removesuffix(b"{broken")
    path.write_bytes(short + b"x" * (9 * len(short)))  # 90.0 % of the bytes, 0.5 % of the lines

    assert run_stage("clean", [*words, "limits.line_bytes=1000", *cut]) == 0

    told = re.sub(r"[\s│]+", " ", capsys.readouterr().out)
    _, status = shown(tmp_path, capsys)

    assert status["dropped_shares"] == {
        "documents": 0,
        "records": 1 / 201,
        "bytes": 0.9,
        "characters": 0,
    }
    assert " 90.0 % of bytes" in told
    assert "were dropped for one reason: line_bytes (limits.line_bytes)" in told


def test_a_run_that_fails_says_why(tmp_path, capsys):
    code = run_stage("clean", words_of(tmp_path, [SHORT] * 5))
    message = capsys.readouterr().err.strip().splitlines()[-1]
    shown_code, status = shown(tmp_path, capsys)

    assert code == status["exit_code"] == 69
    assert (shown_code, status["state"], status["estimated_end"]) == (1, "failed", None)
    assert message == f"error: {status['error']}"


@pytest.mark.parametrize(
    ("number", "state", "ended"),
    [(signal.SIGTERM, "stopped", False), (signal.SIGKILL, "running", True)],
)
def test_a_run_that_is_stopped_or_killed_is_not_running(tmp_path, capsys, number, state, ended):
    words = words_of(tmp_path, [GOOD * 3] * 20_000)
    command = [sys.executable, "-m", "clozeline", "clean", *words, "plan.unit_bytes=65536"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (found := read_status(tmp_path / "out")) or not found.fields.get("units_done"):
            assert run.poll() is None
            time.sleep(0.05)
        run.send_signal(number)

    code, status = shown(tmp_path, capsys)

    assert (status["state"], status["ended"], code) == (state, ended, int(ended))
    assert status["pid"] == run.pid
    assert status["units_left"]


@pytest.mark.parametrize("made", ["nothing", "", "pipeline.yaml"])
def test_a_folder_without_a_run_is_refused(tmp_path, capsys, made):
    folder = tmp_path / "my mine"
    if made != "nothing":
        folder.mkdir()
    if made == "pipeline.yaml":
        text = json.dumps(
            SMALL | {"output": str(folder / "data"), "input": str(words_file(tmp_path))}
        )
        (folder / made).write_text(text)
    assert show_status([str(folder)]) == 64
    message = capsys.readouterr().err
    assert str(folder) in message
    proposed = re.search(r"first: clozeline pipeline (.+)$", message)
    assert ("no such folder" in message, proposed is not None) == (
        made == "nothing",
        made == "pipeline.yaml",
    )
    if proposed:
        assert run_pipeline(shlex.split(proposed[1])) == 0
        capsys.readouterr()
        assert show_status([str(folder)]) == 0
        assert f"{folder}/data" in capsys.readouterr().out


SMALL = {"corpus": "c", "clean": {"language": None, "filters": []}}


def words_file(folder):
    words_of(folder, [GOOD] * 3)
    return folder / "in.jsonl"


EVALUATED = [(200, 5.0), (400, 4.5), (600, None), (800, 4.731)]


def test_runs_in_a_folder_are_shown_in_words_of_columns(tmp_path, capsys):
    losses = {"loss": 4.731, "losses": {"masked_lm": 4.731}}
    for name, state in (("data", "done"), ("run", "failed")):
        (tmp_path / name).mkdir()
        fields = {"state": state, "host": "h", "pid": 1, "heldout": {"heldout": losses}}
        fields["rollbacks"] = 0
        (tmp_path / name / "status.json").write_text(json.dumps(add_checksum(fields)))
    lines = [{"step": step, "heldout": {"heldout": {"loss": loss}}} for step, loss in EVALUATED]
    text = "".join(f"{json.dumps(add_checksum(line))}\n" for line in lines)
    (tmp_path / "run/metrics.jsonl").write_text(text)
    assert show_status([str(tmp_path)]) == 1
    out = capsys.readouterr().out
    assert out.index(f"{tmp_path}/data") < out.index(f"{tmp_path}/run")
    assert re.search(r"^  held-out loss +4.731 \(best 4.5 at 400\)$", out, re.MULTILINE)
    assert "rollbacks" not in out
    assert show_status([str(tmp_path), "json=true"]) == 1
    assert [json.loads(line)["state"] for line in capsys.readouterr().out.splitlines()] == [
        "done",
        "failed",
    ]


@pytest.mark.parametrize("value", [1e308, -1e308, float("nan"), 10**400])
@pytest.mark.parametrize("field", ["started", "heartbeat", "estimated_end", "pid", "start"])
def test_a_time_that_no_calendar_has_is_shown_as_a_number(tmp_path, capsys, field, value):
    fields = {"state": "running", "host": HOST, "pid": 1, "start": 0.0}
    content = add_checksum({**fields, "heartbeat": 0.0, field: value})
    (tmp_path / "status.json").write_text(json.dumps(content))

    assert show_status([str(tmp_path)]) in (0, 1, 2)
    assert "state" in capsys.readouterr().out
