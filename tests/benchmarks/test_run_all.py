"""One table of all benchmarks: which run, which rows are judged, and what the exit code says."""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.harness import Claim, figure

import pytest

from benchmarks import run_all

RATIO = figure("filters", "MB/s", 20.0, 2.0, "datatrove", 8.0, holds=True)
SLOW = figure("signatures", "MB/s", 4.0, 2.0, "datatrove", 8.0, holds=False)
SPEED = figure("crawl", "MB/s", 1.0, None, "", 6.0, holds=False)
WORDS = {**figure("state", "bytes", 2.1e7, None, "", None, holds=True), "target": "1.15 x formula"}
SHARE = figure("recall", "share", 0.9, None, "", 1.0, holds=False)


def test_rows_are_found_at_any_depth() -> None:
    content = {"speed": [RATIO, {"stage": "clean"}], "recall": {"bins": [SHARE]}, "more": 3}
    assert list(run_all.find_rows(content)) == [RATIO, SHARE]


@pytest.mark.parametrize(
    ("row", "quiet", "busy"),
    [(RATIO, "yes", "busy"), (SLOW, "NO", "busy"), (SPEED, "", ""), (SHARE, "NO", "busy"),
     (Claim("memory", "MB", 17.0, 16.0).row(), "NO", "busy"),
     (figure("copy", "MB/s", 1.0, 2.0, "peer", None, holds=True), "", "")],
)  # fmt: skip
def test_ratios_and_limits_are_judged_on_a_quiet_machine(row: dict[str, object], quiet: str, busy: str) -> None:
    answers = [run_all.judge({**row, "judged": run_all.has_target(row) and load <= 2.0}) for load in (1.5, 2.5)]
    assert answers == [quiet, busy]


def test_every_benchmark_runs_or_is_named_as_one_that_needs_more() -> None:
    named = set(run_all.benchmark_names())
    assert {"dedup", "loader", "trainer"} <= named
    assert not named & {"harness", "gpu", "compression", "run_all", "early", "gpu_runs", "recipe_batches"}


@pytest.mark.parametrize("name", run_all.benchmark_names())
def test_a_benchmark_that_runs_with_the_others_needs_no_argument(name: str) -> None:
    source = (run_all.ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert not re.findall(r"add_argument\(\s*[\"'](?!-)|required=True", source)


@pytest.mark.parametrize(
    ("load", "rows", "code"), [(0.5, [RATIO, WORDS], 0), (0.5, [RATIO, SLOW], 1), (9.0, [SLOW], 0), (0.5, [], 1)]
)
def test_the_exit_code_counts_judged_rows_and_benchmarks_without_any(
    load: float, rows: list[dict[str, object]], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks").mkdir()
    script = f"""import json, sys
from pathlib import Path
rows = json.loads({json.dumps(rows)!r})
if not rows: raise SystemExit("no peer")
if __name__ == "__main__":
    Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps(rows))
    raise SystemExit(not all(row["holds"] for row in rows))
"""
    (tmp_path / "benchmarks" / "tiny.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    monkeypatch.setattr("os.getloadavg", lambda: (load, load, load))
    monkeypatch.setattr("sys.argv", ["run_all", "--only", "tiny", "--json", str(tmp_path / "all.json")])
    assert run_all.main() == code
    table = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert [(row["benchmark"], row["load"], row["judged"]) for row in table] == [("tiny", load, load <= 2)] * len(rows)


def test_a_benchmark_gets_the_interpreter_of_its_peers_by_the_option_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "benchmarks").mkdir()
    commands = {}
    for name, option in (("filters", "peer=PEER"), ("loader", "peers_python=str"), ("scale", "")):
        source = f'{option}\nif __name__ == "__main__":\n    pass\n'
        (tmp_path / "benchmarks" / f"{name}.py").write_text(source, encoding="utf-8")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)

    def record(name: str, words: list[str]) -> tuple[int, list[dict[str, object]]]:
        commands[name] = words
        return 0, []

    monkeypatch.setattr(run_all, "run", record)
    monkeypatch.setattr("sys.argv", ["run_all", "--peers", "python-of-peers"])
    assert run_all.main() == 0
    assert commands == {
        "filters": ["--peer", "python-of-peers"], "loader": ["--peers-python", "python-of-peers"], "scale": [],
    }  # fmt: skip
