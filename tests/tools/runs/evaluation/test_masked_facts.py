"""Facts against the model's scores of one sentence at a time over the whole vocabulary."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.tools.runs.evaluate import main
from clozeline.tools.runs.evaluation.masked_facts import read_facts
from clozeline.train.startup.open_run import Run, open_run
from tests.train.written_runs import write_run

WORDS = ["of", "the", "page", "book", "to", "in", "and", "is", "that", "a", "not"]


def line(text: str, word: str, relation: str | None = None) -> str:
    named = {} if relation is None else {"predicate_id": relation}
    return json.dumps({"masked_sentence": text, "obj_label": word, **named}) + "\n"


def rank(trained: Run, before: str, after: str, word: str, words: list[str]) -> int:
    """Candidates that are at least as probable as the word."""
    special = trained.tokenizer.vocabulary.specials
    left, right = (one.ids.tolist() for one in trained.tokenizer.encode([before, after]))
    ids = [special["cls"], *left, special["mask"], *right, special["sep"]]
    tensors = {"input_ids": torch.tensor([ids]), "position_ids": torch.arange(len(ids))[None]}
    with torch.no_grad():
        scores = trained.model.logits(tensors | {"lengths": torch.tensor([len(ids)])})["masked_lm"][0, 1 + len(left)]
    tokens = [trained.tokenizer.encode([f"x {one}"])[0].ids.tolist()[-1] for one in words]
    own = scores[trained.tokenizer.encode([f"x {word}"])[0].ids.tolist()[-1]]
    return sum(bool(scores[token] >= own) for token in tokens)


def test_shares_are_means_over_relations(shard_sets: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A word of several tokens is skipped; words that compete may come from a file."""
    run, folder = tmp_path / "run", tmp_path / "facts"
    run.mkdir()
    folder.mkdir()
    write_run(run, shard_sets, [3], 1)
    trained = open_run(run)
    words = [word for word in WORDS if len(trained.tokenizer.encode([f"a {word}"])[0].ids) == 2]
    assert len(words) > 4
    facts = [("it", f"was {number} {words[number % 3]}", words[number % 4], f"R{number // 9}") for number in range(13)]
    text = "".join(line(f"{before} [MASK] {after}", word, name) for before, after, word, name in facts)
    (folder / "facts.jsonl").write_text(text + line("it [MASK].", "qzxkvqzxkv"), encoding="utf-8")
    (tmp_path / "words.txt").write_text("\n".join(words), encoding="utf-8")
    for given, compete in ((["candidates=" + str(tmp_path / "words.txt")], words), ([], words[:4])):
        capsys.readouterr()
        assert main([str(run), "suite=lama", f"input={folder}", "--json", *given]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        ranks = [rank(trained, before, f" {after}", word, compete) for before, after, word, _ in facts]
        shares = [[at <= limit for at in ranks] for limit in (1, 10)]
        means = [(sum(one[:9]) / 9 + sum(one[9:]) / 4) / 2 for one in shares]
        assert [found["p_at_1"], found["p_at_10"]] == pytest.approx(means)
        assert (found["n"], found["skipped"], found["candidates"]) == (13, 1, len(compete))
        assert found["majority"] == pytest.approx((3 / 9 + 1 / 4) / 2)
        assert [one["n"] for one in found["relations"].values()] == [9, 4]
    assert main([str(run), "suite=lama", f"input={folder}"]) == 0
    shown = capsys.readouterr().out
    assert "13 facts, 1 skipped" in shown
    assert ("BELOW the most frequent word" in shown) == (found["p_at_1"] < found["majority"])


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "P19.jsonl"
    path.write_text('{"masked_sentences": ["Ada was born", "in [MASK] ."], "obj_label": "London"}\n', encoding="utf-8")
    assert read_facts(path) == [("Ada was born in ", " .", "London", "P19")]
    for text in ('{"masked_sentence": "a [MASK] [MASK]", "obj_label": "b"}\n', '{"masked_sentence": "a [MASK]"}\n'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(IntegrityError, match=r"P19\.jsonl, line 1: expected obj_label, and a masked_sentence"):
            read_facts(path)
    path.write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigurationError, match="expected facts, lines of JSON, got none"):
        read_facts(path)
