"""A model learns to tell two sides apart, with the same bytes for the same texts."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.text.linear_model import LinearModel
from clozeline.pipeline.text.word_hashes import WordHashes
from clozeline.tools.shards.train_quality import main

SHARED = [f"word{chr(97 + number)}" for number in range(20)]


def texts(own: str, count: int, seed: int) -> list[str]:
    """Random words, of which a fifth is of this side only."""
    draw = random.Random(seed)
    return [
        " ".join(draw.choice([*SHARED[:8], f"{own}{draw.choice('abc')}", own]) for _ in range(40)) for _ in range(count)
    ]


def write_sides(folder: Path) -> list[str]:
    good = texts("good", 60, 1)
    folder.mkdir()
    for name, part in (("a.jsonl", good[:20]), ("b.jsonl", good[20:])):
        (folder / name).write_text("".join(json.dumps({"text": text}) + "\n" for text in part))
    (folder / "web").mkdir()
    web = (Document(bytes([number]) * 16, text, "web") for number, text in enumerate(texts("bad", 200, 2)))
    write_documents(folder / "web" / "000000.arrow", web)
    return [f"good=[{folder}/*.jsonl]", f"web={folder}/web"]


def test_the_model_ranks_texts_that_it_has_not_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_sides(tmp_path / "sides")
    assert main([*words, f"output={tmp_path}/model.npz"]) == 0
    out = capsys.readouterr().out
    (area,) = re.findall(r"ROC AUC (\S+)", out)
    assert float(area) > 0.99
    assert re.search(r"good: \d\d documents to learn from, \d+ held out\nweb: 1\d\d documents", out)
    model, hashes = LinearModel.load(tmp_path / "model.npz"), WordHashes()
    unseen = [[model.logit(hashes.digests(text)) for text in texts(own, 50, 3)] for own in ("good", "bad")]
    assert min(unseen[0]) > max(unseen[1])
    # neither the order of files nor copies of documents change a byte
    again = [words[0].replace("*.jsonl", "b.jsonl").replace("]", f",{tmp_path}/sides/*.jsonl]"), words[1]]
    assert main([*again, f"output={tmp_path}/again.npz"]) == 0
    assert (tmp_path / "model.npz").read_bytes() == (tmp_path / "again.npz").read_bytes()
    assert main([*words, "documents=20", f"output={tmp_path}/few.npz"]) == 0
    assert re.search(r"web: (1\d|20) documents? to learn from", capsys.readouterr().out.split("wrote")[1])


def test_too_few_texts_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = write_sides(tmp_path / "sides")
    (tmp_path / "one.txt").write_text("a single text")
    assert main([f"good=[{tmp_path}/one.txt]", words[1], f"output={tmp_path}/model.npz"]) == 64
    assert "good: expected at least 20 different texts, got 1" in capsys.readouterr().err
    assert main([f"good=[{tmp_path}/none*]", words[1], f"output={tmp_path}/model.npz"]) == 64
    assert main([words[0], words[1], f"output={tmp_path}/model.npz", "documents=5"]) == 64
    assert not (tmp_path / "model.npz").exists()
