"""Last words against the model's scores of one passage at a time, token by token."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.tools.runs.evaluate import main
from clozeline.tools.runs.evaluation.last_word_prediction import read_passages
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

PASSAGES = ["the page of the book", "a page of another page", "one book", "unread pages of it, the"]


def test_a_word_is_right_with_all_of_its_tokens(
    shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, file = tmp_path / "run", tmp_path / "passages.jsonl"
    run.mkdir()
    write_run(run, shard_sets, [3], 1, "causal_lm", model__family="decoder", model__heads={"lm": 1.0})
    trained = open_run(run)
    end = trained.tokenizer.vocabulary.specials["eos"]
    row = [end, *trained.tokenizer.encode(["the page of"])[0].ids.tolist()]
    for _ in range(3):  # a passage that ends as the model would write
        row.append(int(_scores(trained, row)[-1].argmax()))
    own = trained.tokenizer.decode(row[1:])
    passages = [*PASSAGES, own]
    file.write_text("".join(f"{json.dumps({'text': text})}\n" for text in passages), encoding="utf-8")
    right, total, count = 0, 0.0, 0
    for text in passages:
        before = len(text.strip().rsplit(maxsplit=1)[0])
        encoding = trained.tokenizer.encode([text.strip()])[0]
        ids = [end, *encoding.ids.tolist()]
        places = [place + 1 for place, start in enumerate(encoding.starts.tolist()) if start >= before]
        scores = _scores(trained, ids).log_softmax(-1)
        right += all(int(scores[place - 1].argmax()) == ids[place] for place in places)
        total += sum(float(scores[place - 1, ids[place]]) for place in places)
        count += 1
    capsys.readouterr()
    assert main([str(run), "suite=lambada", f"input={file}", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == count
    assert found["accuracy"] == right / count
    assert found["perplexity"] == pytest.approx(math.exp(-total / count), rel=1e-4)
    assert main([str(run), "suite=lambada", f"input={file}"]) == 0
    assert f"{count} passages, 0 truncated, 0 skipped" in capsys.readouterr().out


def _scores(trained: Run, ids: list[int]) -> torch.Tensor:
    tensors = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None]}
    with torch.no_grad():
        scores: torch.Tensor = trained.model.logits(tensors | {"lengths": torch.tensor([len(ids)])})["lm"][0]
    return scores


def test_passages_of_lines_and_of_json(tmp_path: Path) -> None:
    """A line of plain text is a passage, as published; one word alone is none."""
    path = tmp_path / "test.txt"
    path.write_text("one two\n\nthree\n four five \n", encoding="utf-8")
    assert read_passages(path) == ["one two", "four five"]
    path.write_text("one\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="expected passages of two words or more"):
        read_passages(path)
    path = tmp_path / "test.jsonl"
    path.write_text('{"txt": "a b"}\n', encoding="utf-8")
    with pytest.raises(IntegrityError, match="line 1: expected a field 'text', got txt"):
        read_passages(path)
