"""Documents chosen by an expression: the grammar, and the law that choosing later is filtering earlier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeline.configuration.config import validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.balance.selection import Selection
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.runner import run_recipe
from clozeline.pipeline.execution.stage_order import check_recipe, stages_of
from clozeline.pipeline.execution.stages import StageSummary
from clozeline.pipeline.recipe import Recipe
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline import task_files
from tests.pipeline.miniature import write_corpus

ROW = {"language": "en", "n_words": 7, "host": None, "extra": {"quality": 0.5, "gopher_quality": "", "tag": "x y"}}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("quality > 0.4", True),
        ("0.4 < quality <= 0.5", True),
        ("0.4 < quality < 0.5", False),
        (" gopher_quality == '' and n_words >= 7", True),
        ("language != 'en' or n_words == 7.0", True),
        ("not (language == 'en')", False),
        ("language in ['de', 'en']", True),
        ("language not in ('de', 'en')", False),
        ("extra.tag == 'x y'", True),
        ("quality > -1", True),
        ("host == 'a.org'", False),
        ("host != 'a.org'", False),
        ("not host == 'a.org'", True),
        ("extra.missing < 3 or quality < 1", True),
    ],
)
def test_an_expression_compares_columns(text: str, holds: bool) -> None:
    assert Selection(text).holds(ROW) is holds


CONDITION = st.tuples(
    st.sampled_from(["a", "b"]), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), st.integers(-3, 3)
)
NUMBER = st.integers(-3, 3)


@given(st.lists(st.tuples(CONDITION, st.sampled_from(["and", "or"])), min_size=1, max_size=4), NUMBER, NUMBER)
def test_an_expression_means_what_python_means(parts: list[Any], a: int, b: int) -> None:
    words = [f"{name} {sign} {number} {join}" for (name, sign, number), join in parts]
    text = " ".join(words).rsplit(" ", 1)[0]
    assert Selection(text).holds({"a": a, "b": b, "extra": {}}) == eval(text, {}, {"a": a, "b": b})


@pytest.mark.parametrize(
    "text",
    [
        "quality", "1", "True", "quality > True", "quality + 1 > 2", "len(host) > 3", "host.upper() == 'A'",
        "quality > x.y", "extra.a.b > 1", "extra['a'] > 1", "quality is None", "(lambda: 1)() > 0",
        "[c for c in host] == []", "quality >", "a = 1", "f'{host}' == 'a'", "(quality := 3) > 1",
        "__import__('os').system('x') == 0", "quality > 1j", "", "1 < 2 if a else b",
        "(" * 300 + "quality > 1" + ")" * 300, "host == None", "b'a' == host", "*host == 1",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"balance.select: .* (is no expression|is not allowed)"):
        Selection(text)


def test_a_comparison_of_a_number_with_a_string_names_both() -> None:
    with pytest.raises(ConfigurationError, match="'language > 3' compares 'en' with 3"):
        Selection("language > 3").holds(ROW)


def recipe(folder: Path, name: str, clean: Any, select: str | None) -> Recipe:
    data = {
        "corpus": "selected", "seed": 3, "input": str(folder / "texts" / "*.jsonl"), "output": str(folder / name),
        "heldout": {"fraction": 0.2}, "plan": {"unit_bytes": 20000, "shard_bytes": 20000},
        "clean": {"language": None, "filters": [], **clean}, "tokenizer": {"path": str(folder / "words" / "vocab.txt")},
        "encode": {}, "balance": {"alpha": 1.0, "select": select},
        "group": {"groupings": [{"name": "packed", "length": 32}]},
    }  # fmt: skip
    validated: Recipe = validate(Recipe, data, "test")
    return validated


def run(chosen: Recipe) -> list[StageSummary]:
    check_recipe(chosen)
    summaries: list[StageSummary] = []
    run_recipe(chosen, None, Progress(), summaries)
    write_run_report(chosen.output_folder, stages_of(chosen))
    return summaries


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "texts", 60)
    task_files.write_vocabulary(tmp_path / "words")
    return tmp_path


def group_bytes(folder: Path, name: str) -> dict[str, bytes]:
    root = folder / name / "group"
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*.arrow"))}


GOPHER = {"name": "gopher_quality", "words": [100, 200], "stop_words": 1}


def test_choosing_later_gives_the_bytes_of_filtering_earlier(folder: Path) -> None:
    filtered = run(recipe(folder, "filtered", {"filters": [GOPHER]}, None))
    chosen = run(recipe(folder, "chosen", {"annotate": [GOPHER]}, "gopher_quality == ''"))
    assert group_bytes(folder, "filtered") == group_bytes(folder, "chosen")
    counts = {summary.name: summary.counts for summary in chosen}
    kept = next(summary.counts for summary in filtered if summary.name == "clean")["documents_out"]
    assert counts["balance"]["selection"] == {"selected": kept, "not_selected": counts["clean"]["documents_out"] - kept}
    left_out = counts["group"]["not_selected"]
    assert {split: part["documents"] > 0 for split, part in left_out.items()} == {"train": True, "heldout": True}
    assert verify_counts([str(folder / "chosen")]) == 0
    # measures by rule: another threshold needs no new cleaning, and the same documents no new grouping
    done = dict.fromkeys(("clean", "tokenizer", "encode", "balance", "group"), True)
    for select, same in (("100 <= gopher_short_doc and n_words <= 200", True), ("gopher_short_doc > 120", False)):
        again = run(recipe(folder, "chosen", {"annotate": [GOPHER]}, select))
        assert {summary.name: summary.skipped for summary in again} == {**done, "balance": False, "group": same}
        assert (group_bytes(folder, "filtered") == group_bytes(folder, "chosen")) == same


@pytest.mark.parametrize(
    ("clean", "select", "message"),
    [
        ({}, "quality > 0.5", "no stage writes the column 'quality'"),
        ({"annotate": [GOPHER]}, "gopher_short_dok > 3", "did you mean 'gopher_short_doc'"),
        ({"annotate": ["c4_quality"]}, "n_words > 3", "clean.annotate: c4_quality has no measures"),
        ({}, "n_words +", "is no expression"),
        ({}, "n_words > 1000000", "balance.select: no document fulfills 'n_words > 1000000'"),
    ],
)
def test_refusals(folder: Path, clean: Any, select: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        run(recipe(folder, "out", clean, select))
