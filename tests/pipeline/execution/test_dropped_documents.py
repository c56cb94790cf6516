"""Dropped documents: nothing is made again without need, and what is made again has the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from clozeline.tools.shards.verify_counts import main as verify_counts
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    write_corpus(tmp_path / "corpus")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    return ["--config", str(tmp_path / "recipe.yaml"), f"input={tmp_path / 'corpus'}", f"output={tmp_path / 'out'}"]


def documents(output: Path, stage: str) -> int:
    return len(list((output / stage / "documents").glob("*.arrow")))


def test_documents_are_dropped_and_made_again_where_they_are_needed(
    tmp_path: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert main(words) == 0
    complete = tree(output)
    # the run is complete: nothing runs, documents go, the rest stays
    capsys.readouterr()
    assert main([*words, "drop=[clean]"]) == 0
    assert "clean: documents removed" in capsys.readouterr().err
    assert (documents(output, "clean"), documents(output, "dedup") > 0) == (0, True)
    rest = {name: content for name, content in complete.items() if not name.startswith("clean/documents")}
    assert tree(output) == rest
    # the same command finds all complete, also a hash of every file, a dry run, and one stage
    for more in ([], ["--verify"]):
        assert main([*words, *more, "drop=[clean]"]) == 0
        shown = capsys.readouterr().err
        assert " done in " not in shown
        assert documents(output, "clean") == 0
    assert main(["--dry-run", *words, "drop=[clean]"]) == 0
    assert "clean: complete" in capsys.readouterr().out
    assert verify_counts([str(output)]) == 0
    # a later stage alone needs no documents of clean
    path = next((output / "group" / "records").glob("*.json"))
    path.unlink()
    assert main([*words, "drop=[clean]"]) == 0
    assert "clean: done in" in capsys.readouterr().err  # any missing unit brings them back
    assert tree(output) == rest
    # a file that is no document is missed
    next((output / "clean" / "rejects").glob("*.arrow")).unlink()
    assert main([*words, "drop=[clean]"]) == 0
    assert tree(output) == rest
    # without the key, they are made again and stay
    assert main(words) == 0
    assert tree(output) == complete


def test_a_changed_key_makes_again_what_depends_on_it(tmp_path: Path, words: list[str]) -> None:
    output = tmp_path / "out"
    assert main([*words, "drop=[clean, dedup]"]) == 0
    assert (documents(output, "clean"), documents(output, "dedup")) == (0, 0)
    assert main([*words, "drop=[clean, dedup]", "heldout.fraction=0.3"]) == 0
    assert (documents(output, "clean"), documents(output, "dedup")) == (0, 0)
    changed = tree(output)
    assert main([*words[:-1], f"output={tmp_path / 'other'}", "heldout.fraction=0.3", "drop=[clean, dedup]"]) == 0
    assert tree(tmp_path / "other") == changed


def test_only_documents_can_be_dropped(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "drop=[encode]"]) == 64
    assert "drop: expected stages of the recipe that write documents, clean, dedup" in capsys.readouterr().err
