"""One table of all benchmarks: which run, and what the exit code says."""

import json
import re

from benchmarks.harness import figure

import pytest

from benchmarks import run_all

ROW = figure("filters", "MB/s", 20.0, 2.0, "datatrove", 8.0, holds=True)


def test_rows_are_found_at_any_depth():
    share = figure("recall", "share", 0.9, None, "", 1.0, holds=False)
    content = {"speed": [ROW, {"stage": "clean"}], "recall": {"bins": [share]}, "more": 3}
    assert list(run_all.find_rows(content)) == [ROW, share]


def test_every_benchmark_runs_or_is_named_as_one_that_needs_more():
    named = set(run_all.benchmark_names())
    assert {"dedup", "loader", "trainer"} <= named
    assert not named & {"harness", "gpu", "compression", "run_all", "early", "gpu_runs", "recipe_batches"}


@pytest.mark.parametrize("name", run_all.benchmark_names())
def test_a_benchmark_that_runs_with_the_others_needs_no_argument(name):
    source = (run_all.ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    assert not re.findall(r"add_argument\(\s*[\"'](?!-)|required=True", source)


@pytest.mark.parametrize("code", [0, 1])
def test_rows_have_the_load_and_a_failed_benchmark_shows_in_the_exit_code(code, tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    script = f"""import json, sys
from pathlib import Path
if __name__ == "__main__":
    assert sys.argv[sys.argv.index("--peers-python") + 1] == "python-of-peers"  # option peers_python=
    Path(sys.argv[sys.argv.index("--json") + 1]).write_text(json.dumps([json.loads({json.dumps(ROW)!r})]))
    raise SystemExit({code})
"""
    (tmp_path / "benchmarks" / "tiny.py").write_text(script, encoding="utf-8")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))
    words = ["run_all", "--only", "tiny", "--peers", "python-of-peers", "--json", str(tmp_path / "all.json")]
    monkeypatch.setattr("sys.argv", words)
    assert run_all.main() == code
    table = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert [(row["benchmark"], row["load"], row["ours"]) for row in table] == [("tiny", 9.0, 20.0)]
