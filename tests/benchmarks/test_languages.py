"""Pieces of the declaration, and what counts as right."""

from types import SimpleNamespace

from benchmarks.languages import Piece, cut_pieces, find_shared, read_declaration, score


def identifier(labels, answers=None):
    return SimpleNamespace(
        languages=lambda: frozenset(labels), identify=lambda text: answers[text.split()[0]]
    )


def test_pieces_are_of_texts_with_a_code(tmp_path):
    for name, text in {
        "deu_1996": "ein Text " * 90,
        "026": "x " * 900,
        "vie_han": "y " * 900,
    }.items():
        (tmp_path / f"{name}.html").write_text(f"<head><p>z</head><body><p>{text}</body>")

    versions = list(read_declaration(tmp_path))

    assert [code for code, _ in versions] == ["deu_1996"]
    assert "z" not in versions[0][1]
    assert [len(piece.text) for piece in cut_pieces(versions, 100)] == [100] * 4
    assert cut_pieces(versions, 5000) == []


def test_recall_and_false_friends_are_of_languages_that_all_know():
    ours = identifier(
        ["de", "en", "und"],
        {"right": ("de", 0.9), "low": ("de", 0.2), "friend": ("de", 0.9), "other": ("en", 0.9)},
    )
    kept = find_shared([ours, identifier(["deu_Latn", "fra_Latn"])])
    assert kept == [{"de"}, {"deu_Latn"}]

    options = SimpleNamespace(minimum_score=lambda language, characters: (0.65, "threshold"))
    words = {"deu_1996": ["right", "low", "other"], "ltz": ["friend", "other", "low", "low"]}
    pieces = [Piece(code, word) for code, found in words.items() for word in found]
    scores = score(ours, kept[0], options, pieces)

    assert scores == {
        "recall": 1 / 3,
        "false_friends": 1 / 4,
        "kept_pieces": 3,
        "other_pieces": 4,
        "examples": ["ltz as de"],
    }
