"""The harness of all benchmarks, and the run of all: claims, exit codes, options, tables, and what they import."""

import ast
import json
import re
from importlib import import_module
from importlib.util import find_spec

from benchmarks.harness import ROOT, Claim, figure, finish

import pytest

from benchmarks import run_all

ROW = figure("filters", "MB/s", 20.0, 2.0, "datatrove", 8.0, holds=True)


@pytest.mark.parametrize(
    ("claim", "ratio", "holds"),
    [
        (Claim("ours", "us", 2.0, 10.0, "peer", 4.0), 5.0, True),
        (Claim("ours", "us", 3.0, 10.0, "peer", 4.0), 10 / 3, False),
        (Claim("ours", "samples/s", 60.0, 100.0, "peer", 0.6, more=True), 0.6, True),
        (Claim("ours", "samples/s", 50.0, 100.0, "peer", 0.6, more=True), 0.5, False),
        (Claim("ours", "missing", 0.0, 0.0), 1.0, True),
        (Claim("ours", "missing", 1.0, 0.0), 0.0, False),
    ],
)
def test_a_claim(claim, ratio, holds):
    assert claim.ratio == pytest.approx(ratio)
    assert claim.holds is holds


def test_one_limit_passed_is_exit_code_one(tmp_path, capsys):
    right, wrong = Claim("memory", "MB", 0.0, 16.0), Claim("memory", "MB", 17.0, 16.0)
    assert finish([right], None) == 0
    assert finish([right, wrong], tmp_path / "rows.json") == 1
    rows = json.loads((tmp_path / "rows.json").read_text(encoding="utf-8"))
    assert [row["holds"] for row in rows] == [True, False]
    assert rows[0]["ratio"] is None, "no number of times better than nothing"
    last = capsys.readouterr().out.splitlines()[-1]
    assert [cell.strip() for cell in last.strip("|").split("|")] == ["memory", "MB", "17", "at most 16", "limit", "NO"]


def test_every_benchmark_runs_alone_or_is_named_as_one_that_needs_more():
    named = run_all.benchmark_names()
    assert {"dedup", "loader", "trainer"} <= {*named}
    assert not {*named} & {"harness", "gpu", "compression", "run_all", "gpu_models"}
    for name in named:
        source = (run_all.ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
        assert not re.findall(r"add_argument\(\s*[\"'](?!-)|required=True", source), name


@pytest.mark.parametrize("code", [0, 1])
def test_rows_have_the_load_and_a_failed_benchmark_shows_in_the_exit_code(code, tmp_path, monkeypatch):
    (tmp_path / "benchmarks").mkdir()
    content = {"speed": [ROW, {"stage": "clean"}], "more": 3}
    (tmp_path / "benchmarks" / "tiny.py").write_text(f"""import sys
from pathlib import Path
if __name__ == "__main__":
    assert sys.argv[sys.argv.index("--peers-python") + 1] == "python-of-peers"  # option peers_python=
    Path(sys.argv[sys.argv.index("--json") + 1]).write_text({json.dumps(content)!r})
    raise SystemExit({code})
""")
    monkeypatch.setattr(run_all, "ROOT", tmp_path)
    monkeypatch.setattr("os.getloadavg", lambda: (9.0, 9.0, 9.0))
    words = ["run_all", "--only", "tiny", "--peers", "python-of-peers", "--json", str(tmp_path / "all.json")]
    monkeypatch.setattr("sys.argv", words)
    assert run_all.main() == code
    table = json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))
    assert [(row["benchmark"], row["load"], row["ours"]) for row in table] == [("tiny", 9.0, 20.0)]


def test_whatever_benchmarks_import_from_the_project_is_there():
    for path in sorted(ROOT.glob("benchmarks/**/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in (
                "clozeline",
                "benchmarks",
            ):
                module = import_module(node.module)
                for one in node.names:
                    place = f"{path}:{node.lineno} {node.module} has no {one.name}"
                    assert hasattr(module, one.name) or find_spec(f"{node.module}.{one.name}"), place
