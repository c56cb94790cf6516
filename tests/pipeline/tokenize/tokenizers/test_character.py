from __future__ import annotations

from clozeline.pipeline.tokenize.tokenizers.character import Character


def test_frequent_characters_have_a_piece_and_others_their_bytes(tmp_path):
    model = Character.train(["aab b"], Character.Options(size=154 + 256 + 2), tmp_path)
    row = model.encode(["ab 中"])[0]
    assert [model.piece(token) for token in row.ids.tolist()] == ["a", "b", "<0x20>", "<0xE4>", "<0xB8>", "<0xAD>"]
    assert row.starts.tolist() == [0, 1, 2, 3, 3, 3]
    assert model.decode(row.ids) == "ab 中"
    assert model.vocabulary.word_start[154 + 0x20]
