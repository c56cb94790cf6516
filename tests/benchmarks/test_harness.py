"""The harness of all benchmarks: claims in both directions, exit codes, options and tables."""

import json
from pathlib import Path

from benchmarks.harness import Claim, finish, parser, print_table, run_script

import pytest


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


def test_options_have_the_type_of_their_default():
    options = parser("Speed.", rows=4, rate=(0.5, "a rate"), files=[1, 2], peer=str, out_folder=(Path, "a folder"))
    default = options.parse_args([])
    assert (default.rows, default.rate, default.files, default.peer, default.json) == (4, 0.5, [1, 2], None, None)
    words = ["--rows", "8", "--rate", "1", "--files", "3", "--peer", "py", "--out-folder", "a", "--json", "b"]
    given = options.parse_args(words)
    assert (given.rows, given.rate, given.files, given.peer) == (8, 1.0, [3], "py")
    assert (given.out_folder, given.json) == (Path("a"), Path("b"))


def test_columns_are_aligned(capsys):
    print_table(("case", "ms"), [("a", 1), ("long name", 12345)], "times")
    title, _, *lines = capsys.readouterr().out.strip().splitlines()
    assert title == "times"
    assert {len(line) for line in lines} == {len("| long name | 12345 |")}
    assert lines[2] == "| a         |     1 |"


def test_a_script_of_its_own_process_returns_its_last_line_or_its_error(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import benchmarks.harness, sys\nprint('text')\nprint(len(sys.argv))\n")
    assert run_script(str(script), "--rows", 3) == 3
    script.write_text("raise ValueError('no peer')")
    with pytest.raises(RuntimeError, match=r"^ValueError: no peer$"):
        run_script(str(script))
