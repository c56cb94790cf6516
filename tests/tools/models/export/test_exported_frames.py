"""Special tokens around the texts of a trained model: those of its rows and of the prompts that it continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from clozeline.configuration.config import to_plain
from clozeline.pipeline.corrupt.objectives import build_objective
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.published.exporting import export_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.tools.models.export.exportable import frame_of
from clozeline.tools.models.export.framed_rows import compare_frames
from clozeline.tools.runs.inference.generation import prompt_ids
from clozeline.train.configuration.data import DataConfig
from clozeline.train.data.sets.recorded_sets import RecordedSet, describe_set
from clozeline.train.data.stream.phases import open_phases
from tests.pipeline.tokenize.published.published_files import corpus
from tests.tools.small_run import build

PAIRS = ("text_infilling", "span_corruption", "document_rotation", "bart")
LABELS = (*PAIRS, "masked_lm", "causal_lm")


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("frames") / "out", labels=LABELS)


def recorded(output: Path, label: str) -> RecordedSet:
    manifest = output / "corrupt" / label / "train" / "manifest.json"
    ((source,),) = (phase.sources for phase in open_phases(DataConfig(shards=manifest)))
    return describe_set(manifest, source)


@pytest.mark.parametrize("label", LABELS)
def test_the_export_frames_texts_as_the_stored_rows(output: Path, tmp_path: Path, label: str) -> None:
    trained_on, folder = recorded(output, label), output / "train_tokenizer" / "tokenizer"
    export_tokenizer(folder, tmp_path, frame=frame_of(trained_on), texts=())
    exported, tokenizer = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(folder)
    rows = [row["input_ids"] for row in open_shards(Path(trained_on.path))]
    is_prompt = trained_on.objective.architecture == "decoder"
    assert "each as the" in compare_frames(rows, tokenizer, exported, is_prompt=is_prompt)
    if label in PAIRS:
        prompts = [prompt_ids(tokenizer, trained_on.objective, text) for text in corpus()]
        assert exported(corpus()).input_ids == prompts


@pytest.mark.parametrize("head", ["none", "bos", "cls"])
def test_the_head_of_inputs_is_that_of_the_export(output: Path, tmp_path: Path, head: str) -> None:
    trained_on, folder = recorded(output, "text_infilling"), output / "train_tokenizer" / "tokenizer"
    facts = trained_on.objective.model_copy(update={"options": {**trained_on.objective.options, "source_head": head}})
    export_tokenizer(folder, tmp_path, frame=frame_of(replace(trained_on, objective=facts)), texts=())
    exported, tokenizer = AutoTokenizer.from_pretrained(tmp_path), load_tokenizer(folder)
    assert exported(corpus()).input_ids == [prompt_ids(tokenizer, facts, text) for text in corpus()]


@pytest.mark.parametrize(
    "entry",
    [
        *({"name": name} for name in ("mass", "masked_encoder_decoder", "token_deletion", "text_to_text")),
        {"name": "prefix_lm", "architecture": "encoder_decoder"},
    ],
    ids=lambda entry: entry["name"],
)
def test_the_export_has_the_special_tokens_of_the_objective(
    output: Path, tmp_path: Path, entry: dict[str, Any]
) -> None:
    trained_on, folder = recorded(output, "text_infilling"), output / "train_tokenizer" / "tokenizer"
    tokenizer = load_tokenizer(folder)
    objective = build_objective(entry, tokenizer.vocabulary)
    update = {"name": objective.name, "options": to_plain(objective.options), "architecture": objective.architecture}
    facts = trained_on.objective.model_copy(update=update)
    export_tokenizer(folder, tmp_path, frame=frame_of(replace(trained_on, objective=facts)), texts=())
    first, last = ([] if token is None else [token] for token in (objective.first_token, objective.last_token))
    texts = [[*first, *encoding.ids.tolist(), *last] for encoding in tokenizer.encode(corpus())]
    assert AutoTokenizer.from_pretrained(tmp_path)(corpus()).input_ids == texts
