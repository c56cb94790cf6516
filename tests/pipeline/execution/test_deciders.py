"""What decided a stage's output, against the classes and files themselves."""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from pathlib import Path

from clozeline.pipeline.clean.filters.gopher_quality import GopherQuality
from clozeline.pipeline.clean.filters.url import Url
from clozeline.pipeline.clean.languages.py3langid import Py3langid
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.deciders import deciders_of
from tests.pipeline.clean.cleaning import recipe_for


def test_algorithms_files_and_packages_are_named(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.jsonl").write_text('{"text": "A text."}\n')
    domains = tmp_path / "domains.txt"
    domains.write_text("bad.example\n")
    clean = {
        "language": None,
        "filters": [{"name": "url", "domains": [str(domains)]}, "gopher_quality"],
        "sources": {"default": {"language": "py3langid"}},
    }
    stage = CleanStage(recipe_for(str(tmp_path / "texts"), tmp_path / "out", clean))
    named = deciders_of(stage)
    assert named["version"] == stage.version()
    algorithms = named["algorithms"]
    assert algorithms["filters/url"] == Url.VERSION
    assert algorithms["filters/gopher_quality"] == GopherQuality.VERSION
    assert algorithms["languages/py3langid"] == Py3langid.VERSION
    assert named["files"] == {str(domains): hashlib.sha256(domains.read_bytes()).hexdigest()}
    packages = named["packages"]
    assert (packages["python"], packages["numpy"]) == (platform.python_version(), version("numpy"))
