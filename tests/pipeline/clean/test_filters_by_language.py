"""Languages with options of their own are judged as a run whose filters have these options judges them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.stage import CleanStage
from clozeline.pipeline.execution.stage_keys import stage_key
from clozeline.pipeline.execution.stage_order import check_recipe
from tests.pipeline.clean.cleaning import recipe_for, run_clean

WORDS = [3, 6, 12, 24]
LANGUAGES = ["de", "en", "th"]


def write_inputs(folder: Path) -> list[dict[str, Any]]:
    """A source for each language, whose texts have 3 to 24 words."""
    entries = []
    for language in LANGUAGES:
        path = folder / f"{language}.jsonl"
        lines = [json.dumps({"text": f"{language} " + "word " * (count - 1)}) for count in WORDS]
        path.write_text("\n".join(lines) + "\n")
        entries.append({"path": str(path), "source": language, "language": language})
    return entries


def gopher(words: list[int]) -> dict[str, Any]:
    return {"name": "gopher_quality", "words": words, "stop_words": 0}


def clean_with(key: str, **more: Any) -> dict[str, Any]:
    return {"language": None, "filters": [], key: [gopher([10, 100])], **more}


@pytest.mark.parametrize("key", ["filters", "annotate"])
def test_each_language_is_judged_by_its_own_options(tmp_path: Path, key: str) -> None:
    entries = write_inputs(tmp_path)
    changed = {"th": {"gopher_quality": {"words": [5, 100]}}, "de": {"gopher_quality": {"words": [20, 100]}}}
    mixed = run_clean(entries, tmp_path / "mixed", clean_with(key, by_language=changed))
    for language, least in {"th": 5, "de": 20, "en": 10}.items():
        alone = run_clean(entries, tmp_path / language, {**clean_with(key), key: [gopher([least, 100])]})
        for mine, theirs in ((mixed.documents, alone.documents), (mixed.rejects, alone.rejects)):
            rows = [[repr(each) for each in group if each.source.split("/")[0] == language] for group in (mine, theirs)]
            assert rows[0] == rows[1]
        if key == "filters":
            kept = [each.n_words for each in mixed.documents if each.language == language]
            assert kept == [count for count in WORDS if count >= least], "the oracle: the words of the texts"
    assert mixed.counts["documents_in"] == len(WORDS) * len(LANGUAGES)


def test_a_source_takes_the_options_too(tmp_path: Path) -> None:
    clean = clean_with("filters", by_language={"th": {"gopher_quality": {"words": [5, 100]}}})
    clean["sources"] = {"th": {"filters": [gopher([24, 100])]}, "en": {"filters": [gopher([24, 100])]}}
    done = run_clean(write_inputs(tmp_path), tmp_path / "out", clean)
    assert sorted((each.language, each.n_words) for each in done.documents) == [
        ("de", 12), ("de", 24), ("en", 24), ("th", 6), ("th", 12), ("th", 24),
    ]  # fmt: skip


def test_the_key_changes_the_digest_only_if_it_is_set(tmp_path: Path) -> None:
    entries = write_inputs(tmp_path)
    keys = [
        stage_key(CleanStage(recipe_for(entries, tmp_path / "out", clean_with("filters", **more))), "")
        for more in ({}, {"by_language": {}}, {"by_language": {"th": {"gopher_quality": {"words": [5, 100]}}}})
    ]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("by_language", "message"),
    [
        ({"th": {"gopher_qality": {}}}, r"clean.by_language.th.gopher_qality: .* did you mean 'gopher_quality'\?"),
        ({"th": {"gopher_quality": {"word": [1, 2]}}}, r"clean.by_language.th.gopher_quality: .*word.*words"),
        ({"th": {"gopher_quality": {"words": [-1, 2]}}}, r"clean.by_language.th.gopher_quality: .*words"),
        ({"xx": {"gopher_quality": {"words": [1, 2]}}}, r"clean.by_language.xx: the language identifier knows no 'xx'"),
        ({"th": {"url": {}}}, r"clean.by_language.th.url: a filter of URLs runs before the language is known"),
    ],
)
def test_mistakes_are_named_before_the_work(tmp_path: Path, by_language: dict[str, Any], message: str) -> None:
    (tmp_path / "words.txt").write_text("casino\n")
    url = {"name": "url", "banned_words": [str(tmp_path / "words.txt")]}
    clean = {"filters": [url, gopher([10, 100])], "by_language": by_language}
    with pytest.raises(ConfigurationError, match=message):
        check_recipe(recipe_for(write_inputs(tmp_path), tmp_path / "out", clean))
