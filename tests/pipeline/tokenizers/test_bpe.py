from __future__ import annotations

from pipeline.tokenizers.bpe import Bpe

LECTURE = "low " * 5 + "lowest " * 2 + "newer " * 6 + "wider " * 3 + "new " * 2


def test_the_lectures_example(tmp_path):
    model = Bpe.train([LECTURE], Bpe.Options(size=154 + 11 + 8), tmp_path)
    pieces = [model.piece(token) for token in range(154, model.vocabulary.size)]
    assert sorted(pieces[:11]) == sorted("_delnorwits"), "letters come first"
    assert pieces[11:] == ["er", "er_", "ne", "new", "lo", "low", "newer_", "low_"]
    ids = model.encode(["newer  lower\nno_w é"])[0]
    assert [model.piece(token) for token in ids.ids.tolist()] == [
        "newer_", "low", "er_", "n", "o", "<unk>", "w", "_", "<unk>", "_"
    ]  # fmt: skip
    assert ids.starts.tolist() == [0, 7, 10, 13, 14, 15, 16, 16, 18, 18]
    assert model.decode(ids.ids[:3]) == "newer lower "
