"""Symbolic links at the names of outputs, put there by somebody else who may write to the folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe


@pytest.fixture(scope="module")
def arguments(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("corpus")
    recipe = write_recipe(folder, RECIPE[: RECIPE.index("  - {name: span_corruption")])
    return [
        "--config",
        str(recipe),
        f"input={write_corpus(folder / 'crawl', 8)}",
        "executor.workers=1",
        "heldout.fraction=0",
    ]


def test_no_name_of_a_pipeline_is_written_through_a_link(arguments: list[str], tmp_path: Path) -> None:
    """A first run tells every name; at each of them a second run finds a link to a file of somebody."""
    assert main([*arguments, f"output={tmp_path / 'first'}"]) == 0
    names = [path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*") if path.is_file()]
    names = [name for name in names if name.name != ".lock"]
    assert len(names) > 40
    victims = {}
    for number, name in enumerate(names):
        link = tmp_path / "second" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        victims[link] = tmp_path / f"victim {number}"
        victims[link].write_text("mine", encoding="utf-8")
        link.symlink_to(victims[link])
    code = main([*arguments, f"output={tmp_path / 'second'}"])
    changed = [str(link) for link, victim in victims.items() if victim.read_text(encoding="utf-8") != "mine"]
    assert changed == []
    assert code == 0 or [link for link in victims if link.is_symlink()], "links are replaced, or they are refused"


def test_a_lock_that_is_a_link_is_refused(arguments, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    (tmp_path / "out" / ".lock").symlink_to(victim)
    assert main([*arguments, f"output={tmp_path / 'out'}"]) == 74
    assert "symbolic link" in capsys.readouterr().err
    assert victim.read_text(encoding="utf-8") == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
