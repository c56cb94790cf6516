"""The documents nearest to a threshold, on either side, against the texts that were written."""

import json

from clozeline.configuration.config import load_config
from clozeline.pipeline.recipe import Recipe
from clozeline.tools.shards.filter_report import collect_reasons, main
from tests.pipeline.clean.cleaning import run_clean

SIZES = (3, 9, 8, 12, 10, 25, 11, 40)


def run(tmp_path, *filters):
    path = tmp_path / "texts.jsonl"
    lines = [json.dumps({"text": f"grade{chr(97 + size % 26)} " + "the and words " * size}) for size in SIZES]
    path.write_text("\n".join(lines) + "\n")
    run_clean(str(path), tmp_path / "out", {"language": None, "filters": list(filters), "keep_text": 1.0})
    return tmp_path / "out"


def collect(out, most=2):
    return collect_reasons(out, load_config(Recipe, out / "clean" / "config.yaml"), most, 100)


def test_the_nearest_documents_of_each_side(tmp_path):
    """A text has three words a unit of its size, and one."""
    out = run(tmp_path, {"name": "gopher_quality", "words": [30, 100], "stop_words": 0})
    reasons, measured = collect(out)
    short, long = reasons["gopher_short_doc"], reasons["gopher_long_doc"]
    assert (measured, short.rejected, long.rejected) == (4, 3, 1)
    assert [each.shown for each in sorted(short.below)] == ["25 words < 30", "28 words < 30"]
    assert [each.shown for each in sorted(short.above)] == ["34 words >= 30", "31 words >= 30"]
    assert [each.shown for each in long.below] == ["121 words > 100"]
    assert [each.shown for each in sorted(long.above)] == ["37 words <= 100", "76 words <= 100"]
    offset = (tmp_path / "texts.jsonl").read_text().index('{"text": "gradeo')
    assert long.below[0].origin == f"default/texts.jsonl at {offset:,}"
    assert long.below[0].text.startswith("gradeo the and words")


def test_tables_and_page(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = run(tmp_path, {"name": "gopher_quality", "words": [30, 100], "stop_words": 0}, "c4_quality")
    assert main([str(out), "--html", str(tmp_path / "page.html")]) == 0
    shown = capsys.readouterr().out
    assert "8 documents rejected by filters, 0 kept documents measured" in shown
    assert "gopher_quality: gopher_short_doc" in shown
    page = (tmp_path / "page.html").read_text()
    assert "28 words &lt; 30" in page
    assert "Legend" not in page


def test_another_folder_is_refused(tmp_path, capsys):
    assert main([str(tmp_path)]) == 64
    assert "expected the output folder of a pipeline run" in capsys.readouterr().err
