"""Folders of another run in the place of a run's own: each is refused, or the stage's bytes are the right ones."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.recipe_command import main, run_stage
from tests.pipeline.execution.toy_stage import tree
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe
from tests.pipeline.mutations import copied_before

STAGES = all_stages()
SHORT = RECIPE[: RECIPE.index("  - {name: span_corruption")].replace("variants: 2", "variants: 1")
OTHERS: dict[str, list[str]] = {
    "corpus": [],
    "seed": ["seed=8"],
    "recipe": ["train_tokenizer.size=600", "clean.filters=[]", "dedup.near=null"],
}
PARTS: dict[str, Callable[[str], bool]] = {
    "folder": lambda name: True,
    "files": lambda name: not name.startswith("records/"),
    "records": lambda name: name.startswith("records/"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, list[str], Callable[[str], Path]]:
    """A finished run, its arguments, and other finished runs with the same names and sizes of input files."""
    folder = tmp_path_factory.mktemp("runs")
    config = str(write_recipe(folder, SHORT))
    source = write_corpus(folder / "crawl", 40)
    shutil.copytree(source.parent, folder / "other" / "crawl")
    for path in (folder / "other" / "crawl").iterdir():
        path.write_text(path.read_text().replace(" the ", " eht ").replace(" a ", " e "))
    arguments = ["--config", config, f"input={source}"]
    assert main([*arguments, f"output={folder / 'own'}"]) == 0

    def other(kind: str) -> Path:
        output = folder / f"run-{kind}"
        given = folder / "other" / "crawl" / "*.jsonl" if kind == "corpus" else source
        if not output.exists():
            assert main(["--config", config, f"input={given}", f"output={output}", *OTHERS[kind]]) == 0
        return output

    return folder / "own", arguments, other


def swapped(own: Path, other: Path, swapped_in: Callable[[str], bool]) -> None:
    """Replace some files of a stage; what only one of the two runs has goes, or comes."""
    for folder in (own, other):
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder).as_posix()
            if path.is_file() and swapped_in(name):
                target = own / name
                target.unlink(missing_ok=True)
                if folder == other:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(path.read_bytes())


def outcomes(runs, kind: str, pairs: Iterator[tuple[str, str]], tmp_path: Path, capsys) -> Counter[str]:
    own, arguments, other = runs
    there = other(kind)
    found: Counter[str] = Counter()
    for before, stage in pairs:
        for part, swapped_in in PARTS.items():
            with copied_before(own, stage, tmp_path) as copy:
                swapped(copy / before, there / before, swapped_in)
                capsys.readouterr()
                code = run_stage(stage, [*arguments, f"output={copy}"])
                said = capsys.readouterr().err
                case = f"{part} of {before} under {stage}"
                assert "Traceback" not in said, case
                assert "please report" not in said, f"{case}: {said}"
                if code == 0:
                    assert tree(copy / stage) == tree(own / stage), f"silent: {case}"
                else:
                    assert code in (64, 65), f"{case}: {said}"
                    assert "run `clozeline " in said or "restore them" in said, f"no way out: {said}"
                found["right" if code == 0 else "refused"] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_any_earlier_stage_is_that_of_another_run(runs, tmp_path, capsys, kind):
    pairs = ((before, stage) for place, stage in enumerate(STAGES) for before in STAGES[:place])
    assert outcomes(runs, kind, pairs, tmp_path, capsys)["refused"] >= 15
