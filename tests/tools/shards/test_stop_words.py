"""Stop words of documents: the rule by hand, and pieces of novels that were not counted."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from clozeline.pipeline.clean.filters.gopher_quality import GopherQuality
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.ingest.documents.files import write_documents
from clozeline.pipeline.text.stop_words import count_stop_words
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.pipeline.text.word_tokens import word_tokens
from clozeline.tools.shards.stop_words import StopWordOptions, count_words, main


def document(text: str, language: str = "en", score: float = 1.0) -> Document:
    return Document(bytes(16), text, "s", language=language, language_score=score)


def test_words_are_those_of_the_rule(tmp_path: Path) -> None:
    texts = [f"the {a} and {b} of 1999, the {a * 2}!" for a in ("cat", "dog", "owl") for b in ("x", "y", "z")]
    documents = [*map(document, texts), document("seltene Worte " * 50, "de"), document("noise " * 99, score=0.5)]
    options = StopWordOptions(output=tmp_path, documents=2, share=0.2, least=1)
    counts = Counter(
        word for text in texts for word in text.replace(",", "").replace("!", "").split() if word.isalpha()
    )
    expected = [word for word, count in counts.most_common() if count >= 0.2 * counts.total()]
    assert count_words(documents, options) == {"en": expected} == {"en": ["the"]}
    # at least so many, ties in the order of the alphabet
    lists = count_words(documents, StopWordOptions(output=tmp_path, documents=2, share=0.2, least=3))
    assert lists == {"en": ["the", "and", "of"]}


def test_chinese_has_strings(tmp_path: Path) -> None:
    options = StopWordOptions(output=tmp_path, documents=1, share=0.2)
    assert count_words([document("我的书和你的书", "zh")], options)["zh"][:2] == ["书", "的"]


def test_the_filter_reads_the_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "clean" / "documents"
    folder.mkdir(parents=True)
    write_documents(folder / "000000.arrow", [document(f"ja {word} to nie {word}", "xx") for word in "abc"])
    words = [str(tmp_path), f"output={tmp_path / 'lists'}", "documents=3", "least=3"]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("xx: ")
    text = TextStatistics("ja wiem to " + "nie chce tego " * 20)
    judge = GopherQuality(GopherQuality.Options(stop_words_from=tmp_path / "lists", stop_words=3)).judge
    assert judge(text, "xx").reason == ""
    assert judge(TextStatistics("unrelated wording " * 40), "xx").reason == "gopher_enough_stop_words"
    assert judge(text, "en").note == "stop_words_unavailable"
    assert main(words) == 64
    assert "exists; choose a new folder" in capsys.readouterr().err
    assert main([str(tmp_path), f"output={tmp_path / 'more'}"]) == 64
    assert "lower `documents` or `score`" in capsys.readouterr().err


@pytest.mark.data
@pytest.mark.skipif("CLOZELINE_DATA" not in os.environ, reason="CLOZELINE_DATA names no folder of real files")
@pytest.mark.parametrize("name", ["deu", "eng", "fra", "ita", "por", "spa", "gre", "hun", "ukr", "pol"])
def test_pieces_of_other_novels_have_stop_words(name: str, tmp_path: Path) -> None:
    path = Path(os.environ["CLOZELINE_DATA"]) / "text" / f"novels_{name}.jsonl.zst"
    with path.open("rb") as file:
        lines = zstandard.ZstdDecompressor().stream_reader(file).read().decode().splitlines()
    texts = [json.loads(line)["text"] for line in lines]
    half = len(texts) // 2
    options = StopWordOptions(output=tmp_path, documents=1)
    stop_words = count_words([document(text[:400_000], name) for text in texts[:half]], options)[name]
    assert 8 <= len(stop_words) <= 25
    tokens = [token for text in texts[half:] for token in word_tokens(text[:200_000]) if token.isalpha()]
    pieces = [tokens[start : start + 60] for start in range(0, len(tokens) - 60, 60)]
    statistics = [TextStatistics(" ".join(piece)) for piece in pieces]
    passed = sum(count_stop_words(piece, frozenset(stop_words), name) >= 2 for piece in statistics)
    print(name, len(stop_words), passed / len(pieces))
    assert passed / len(pieces) >= 0.99
