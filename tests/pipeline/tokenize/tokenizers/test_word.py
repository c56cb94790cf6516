from __future__ import annotations

from clozeline.pipeline.tokenize.tokenizers.word import Word


def test_words_by_frequency_and_the_unknown_one(tmp_path):
    text = "the cat, the dog. the cat\n" * 2 + "once"
    model = Word.train([text], Word.Options(size=158), tmp_path)
    assert [model.piece(token) for token in range(154, 158)] == [" cat", " the", "the", ","]
    row = model.encode(["the taaaasty cat, 中文"])[0]
    assert [model.piece(token) for token in row.ids.tolist()] == ["the", "<unk>", " cat", ",", "<unk>"]
    assert row.starts.tolist() == [0, 3, 12, 16, 17]
    assert model.decode(row.ids) == "the<unk> cat,<unk>"
