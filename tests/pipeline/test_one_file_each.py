"""A filter or a reader is one file, a stage is one folder: what is added to `pipeline/` is there at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

from clozeline.configuration.config import to_plain, validate
from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.plan import load_plan
from clozeline.pipeline.recipe import Recipe
from tests.pipeline.clean.cleaning import LENIENT, recipe_for, run_clean
from tests.temporary_module import temporary_module

PIPELINE = Path(__file__).parents[2] / "pipeline"

FILTER = '''
    """Documents that shout."""

    from typing import ClassVar


    from clozeline.configuration.config import config_class
    from clozeline.pipeline.clean.filters import KEEP, Verdict


    class Shouting:
        """Rejects a document with too many capital letters."""

        VERSION: ClassVar[int] = 1
        reasons: ClassVar[tuple[str, ...]] = ("capitals",)

        @config_class
        class Options:
            most: float = 0.5

        def __init__(self, options):
            self.options = options

        def judge(self, statistics, language):
            """Return the verdict."""
            share = sum(map(str.isupper, statistics.text)) / len(statistics.text)
            return Verdict("capitals", f"{share:.2f}") if share > self.options.most else KEEP
'''

READER = '''
    """Values between delimiters: the first of a line is the text."""

    from dataclasses import replace
    from typing import ClassVar


    from clozeline.configuration.config import config_class
    from clozeline.pipeline.ingest.readers._rows import FieldOptions, make_record
    from clozeline.pipeline.ingest.readers._rows import LineFile


    class Csvish(LineFile):
        """Reads a text a line."""

        VERSION: ClassVar[int] = 1
        suffixes: ClassVar[tuple[str, ...]] = (".csvish",)
        reasons: ClassVar[tuple[str, ...]] = LineFile.line_reasons

        @config_class
        class Options:
            delimiter: str = ","

        def parse(self, line, offset, length):
            """The record of a line."""
            text = line.split(self._options.delimiter)[0]
            return make_record({"text": text}, FieldOptions(), "csvish", offset, length)
'''

STAGE = '''
    """Shout: documents in capital letters."""

    from dataclasses import dataclass as plain_dataclass
    from pathlib import Path
    from typing import ClassVar

    from clozeline.configuration.config import config_class
    from clozeline.pipeline.ingest.documents.files import read_documents, write_documents
    from clozeline.pipeline.execution.stages import documents_folder
    from clozeline.pipeline.execution.stages import Pass, Row, Stage, amount
    from clozeline.pipeline.execution.unit_record import Counts, require_equal


    class ShoutCounts(Counts, total=False):
        shouted: dict[str, int]


    @config_class
    class ShoutConfig:
        mark: str = "!"
        """what follows each text"""


    @plain_dataclass
    class Shout(Pass[ShoutCounts]):
        units: int
        documents: Path
        mark: str
        name: str = "main"

        def run(self, unit, output):
            found = list(read_documents(self.documents / "documents" / f"{unit:06d}.arrow"))
            with output.file(f"documents/{unit:06d}.arrow") as path:
                write_documents(path, [one.replace(text=one.text.upper() + self.mark) for one in found])
            return {"documents_in": len(found), "documents_out": len(found), "shouted": {"loud": len(found)}}


    class ShoutStage(Stage[ShoutConfig, ShoutCounts]):
        name: ClassVar[str] = "shout"
        needs: ClassVar[tuple[str, ...]] = ("clean",)
        writes_documents: ClassVar[bool] = True

        def version(self):
            return 1

        def passes(self):
            return [Shout(len(self.plan.units), documents_folder(self.recipe, self.name), self.config.mark)]

        def row(self, counts):
            return Row(amount(counts["documents_in"], "document"), "all", (("document", counts["shouted"]),))

        def check(self, counts):
            require_equal(self.name, "in", counts["documents_in"], "out", counts["documents_out"])
'''


def lines(folder: Path, *texts: str) -> Path:
    path = folder / "rows.csvish"
    path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return path


def test_a_filter_is_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "quiet words"}\n{"text": "LOUD WORDS"}\n', encoding="utf-8")
    clean = {"language": None, "filters": [{"name": "shouting", "most": 0.6}]}
    with temporary_module("clozeline.pipeline.clean.filters", "shouting", FILTER, tmp_path):
        found = run_clean(str(tmp_path / "a.jsonl"), tmp_path / "out", clean)
    assert [document.text for document in found.documents] == ["quiet words"]
    assert [(reject.reason, reject.detail) for reject in found.rejects] == [("capitals", "0.90")]
    with pytest.raises(ConfigurationError, match="no 'shouting'"):
        recipe_for("x", tmp_path, clean)


@pytest.mark.parametrize("named", [{}, {"reader": "csvish"}])
def test_a_reader_with_an_option_is_one_file(tmp_path: Path, named: dict[str, str]) -> None:
    """The option is written beside the keys of the input, whether the reader is named or found by the file's ending."""
    entry = {"path": str(lines(tmp_path, "one;two", "three")), "source": "rows", **named, "delimiter": ";"}
    with temporary_module("clozeline.pipeline.ingest.readers", "csvish", READER, tmp_path):
        found = run_clean(entry, tmp_path / "out")
        recipe = recipe_for(entry, tmp_path / "out")
        assert validate(Recipe, to_plain(recipe), "again") == recipe
        assert load_plan(recipe).inputs[0]["options"]["delimiter"] == ";"
    assert sorted(document.text for document in found.documents) == ["one", "three"]


def test_one_input_may_hold_files_of_several_readers(tmp_path: Path) -> None:
    """An option must be one of any of them."""
    (tmp_path / "a.jsonl").write_text('{"body": "first"}\n', encoding="utf-8")
    (tmp_path / "a.txt").write_text("second", encoding="utf-8")
    found = run_clean({"path": str(tmp_path / "a.*"), "text_key": "body"}, tmp_path / "out")
    assert sorted(document.text for document in found.documents) == ["first", "second"]


@pytest.fixture
def with_shout(tmp_path: Path) -> dict[str, str]:
    """The environment of a process whose package `clozeline.pipeline` has one more folder, and a line that names it."""
    package = tmp_path / "copy" / "clozeline"
    copy = package / "pipeline"
    (copy / "shout").mkdir(parents=True)
    for folder, links in ((package, PIPELINE.parent / "clozeline"), (copy, PIPELINE)):
        for path in links.iterdir():
            if path.name not in ("__pycache__", "pipeline"):
                (folder / path.name).symlink_to(path.resolve())
    (copy / "shout" / "stage.py").write_text(textwrap.dedent(STAGE), encoding="utf-8")
    listed, after = (PIPELINE / "__init__.py").read_text(encoding="utf-8"), '    "dedup": "dedup",\n'
    (copy / "__init__.py").unlink()
    (copy / "__init__.py").write_text(listed.replace(after, f'{after}    "shout": "shout",\n'), encoding="utf-8")
    return {**os.environ, "PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.slow
def test_a_stage_is_one_folder_and_a_line(tmp_path: Path, with_shout: dict[str, str]) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n', encoding="utf-8")
    recipe = {"corpus": "c", "input": str(tmp_path / "a.jsonl"), "output": str(tmp_path / "out"), "clean": LENIENT,
              "shout": {"mark": "?"}}  # fmt: skip
    (tmp_path / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")

    def run(*words: str, more: Sequence[str] = ()) -> str:
        command = [sys.executable, "-m", "clozeline", *words, "--config", str(tmp_path / "recipe.yaml"), *more]
        done = subprocess.run(command, env=with_shout, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "2 loud" in run("pipeline")
    assert "2 documents" in run("shout", more=["shout.mark=X"])
    report = json.loads((tmp_path / "out" / "shout" / "report.json").read_text(encoding="utf-8"))
    assert report["counts"] == {"documents_in": 2, "documents_out": 2, "shouted": {"loud": 2}}
    assert 'shout.mark: str = "!": what follows each text' in run("pipeline", "--help")
