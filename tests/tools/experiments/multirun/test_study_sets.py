"""Sets of a study whose variants change the pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.pipeline.shards import open_shards
from clozeline.tools.experiments.multirun import study_sets
from clozeline.tools.experiments.multirun.study_plan import load_study
from clozeline.tools.experiments.multirun.study_sets import make_all_sets, measured_sets, named_files

STUDY = Path(__file__).parents[4] / "configs" / "studies" / "data"
VARIANTS = {
    "raw": "{phases: [{sets: {causal_lm: 1.0}}], measures: {prose: causal_lm}, pipeline: {}}",
    "exact": "{base: raw, pipeline: {dedup: {exact: {key: text}, near: null}}}",
}


def write_study(folder: Path, **changes: str) -> None:
    variants = "".join(f"  {name}: {text}\n" for name, text in (VARIANTS | changes).items())
    (folder / "study.yaml").write_text(f"title: small\nflops: 1.0e+9\nseeds: 1\nvariants:\n{variants}")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Return a study of two steps with a small tokenizer, and texts of which each stands there twice."""
    folder = tmp_path / "study"
    folder.mkdir()
    write_study(folder)
    (folder / "pipeline.yaml").write_text((STUDY / "pipeline.yaml").read_text().replace("4096", "420"))
    texts = [f"The fox of page {number} met a dog by the river, {number * number} times." for number in range(40)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts * 2))
    (tmp_path / "prose.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts[:9]))
    return folder


def test_each_variant_gets_its_documents_and_all_share_a_tokenizer(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_here(*command: Any, **_: Any) -> None:
        assert run_pipeline([str(word) for word in command[2:]]) == 0

    monkeypatch.setattr(study_sets, "run_step", run_here)
    _, variants = load_study(study)
    assert list(variants) == ["raw", "exact"]  # a base before the steps on it
    assert variants["exact"].measures == variants["raw"].measures
    files = (str(tmp_path / "texts.jsonl"), {"prose": str(tmp_path / "prose.jsonl")})
    folders = make_all_sets(study, tmp_path / "out", variants, *files)
    assert [study_sets.count_documents(folders[name].parent).count for name in variants] == [80, 40]
    heldout = measured_sets(variants["exact"], folders)
    assert heldout == {"prose": tmp_path / "out/shards/heldout-prose/corrupt/causal_lm/train"}
    tokenizers = {
        open_shards(path).manifest.tokenizer.fingerprint
        for path in (*(folders[name] / "causal_lm" / "train" for name in variants), heldout["prose"])
    }
    assert len(tokenizers) == 1


def test_words_without_a_use_are_refused(study: Path, tmp_path: Path) -> None:
    _, variants = load_study(study)
    with pytest.raises(ConfigurationError, match=r"expected NAME=FILES, got 'prose'"):
        named_files(["prose"])
    with pytest.raises(ConfigurationError, match=r"give --heldout prose=FILES"):
        make_all_sets(study, tmp_path, variants, "texts", {})
    with pytest.raises(ConfigurationError, match=r"expected one of prose, got blimp"):
        make_all_sets(study, tmp_path, variants, "texts", {"prose": "a", "blimp": "b"})
    _, shared = load_study(STUDY.parent / "hybrid")
    with pytest.raises(ConfigurationError, match=r"as all variants share one pipeline, got causal"):
        make_all_sets(study, tmp_path, shared, "texts", {"causal": "a"})


def test_wrong_bases_are_refused(study: Path) -> None:
    for base, message in (("none", "none is no variant"), ("exact", "exact is its own base")):
        write_study(study, exact=f"{{base: {base}}}")
        with pytest.raises(ConfigurationError, match=message):
            load_study(study)
    write_study(study, exact=VARIANTS["raw"].replace("pipeline: {}", "pairs: []"))
    with pytest.raises(ConfigurationError, match="a pipeline for every variant or for none"):
        load_study(study)
