"""A tokenizer with further pieces, against merges learnt by hand, the library, and the tokenizer as it was."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers import Tokenizer as Library

from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.registry import find
from clozeline.tools.models.extend_tokenizer import main

GENERAL = ["the cat sat on the mat and the rat sat on the hat"] * 20
DOMAIN = ["immunology of the cat", "immunology and immunity", "immune rat immunology"] * 10
KINDS = ["byte_bpe", "tokenizer_json", "wordpiece", "vocab.txt"]


def trained(folder, kind):
    if kind == "tokenizer_json":
        library = Library.from_file(str(trained(folder / "own", "byte_bpe") / "tokenizer.json"))
        (folder / "published").mkdir()
        library.save(str(folder / "published" / "tokenizer.json"))
        import_tokenizer(folder / "published" / "tokenizer.json", folder / "base")
        return folder / "base"
    if kind == "vocab.txt":
        letters = sorted(set("".join([*GENERAL, *DOMAIN])) - {" "})
        names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *GENERAL[0].split(), *letters]
        names = list(dict.fromkeys([*names, *(f"##{letter}" for letter in letters)]))
        (folder / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        import_tokenizer(folder / "vocab.txt", folder / "base")
        return folder / "base"
    found = find("clozeline.pipeline.tokenize.tokenizers", kind)
    room = len(special_pieces(16)) + (40 if kind == "wordpiece" else 256)
    tokenizer = found.train([*GENERAL, "imunolgyte"], found.Options(size=room + 20), folder / "base")
    save_tokenizer(tokenizer, kind, folder / "base")
    return folder / "base"


def domain(folder):
    path = folder / "domain.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in DOMAIN), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_old_ids_stay_and_words_of_the_domain_get_shorter(tmp_path, capsys, kind):
    base = trained(tmp_path, kind)
    words = [str(base), f"input={domain(tmp_path)}", f"output={tmp_path / 'more'}", "pieces=10", "min_frequency=5"]
    assert main(words) == 0
    before, after = load_tokenizer(base), load_tokenizer(tmp_path / "more")
    size = before.vocabulary.size
    assert after.vocabulary.size == size + 10
    assert [after.piece(token) for token in range(size)] == [before.piece(token) for token in range(size)]
    assert after.vocabulary.specials == before.vocabulary.specials
    for text in GENERAL[:1]:
        assert after.encode([text])[0].ids.tolist() == before.encode([text])[0].ids.tolist()
    ((short,), (long,)) = (
        [one.ids.tolist() for one in tokenizer.encode(["immunology"])] for tokenizer in (after, before)
    )
    assert len(short) == 1 < len(long)
    assert after.decode(short).strip() == "immunology"
    assert "10 new pieces from id" in capsys.readouterr().out


def test_merges_are_those_of_the_most_frequent_neighbours(tmp_path):
    """A slow reference: count all neighbours of all words, merge the most frequent pair, count again."""
    base = trained(tmp_path, "byte_bpe")
    assert main([str(base), f"input={domain(tmp_path)}", f"output={tmp_path / 'more'}", "pieces=6"]) == 0
    library = Library.from_file(str(base / "tokenizer.json"))
    rows = [
        [token.value for token in library.model.tokenize(word)]
        for text in DOMAIN
        for word, _ in library.pre_tokenizer.pre_tokenize_str(text)
    ]
    known, order = set(library.get_vocab()), sorted({piece for row in rows for piece in row})
    made = []
    for _ in range(6):
        pairs = Counter(pair for row in rows for pair in pairwise(row) if "".join(pair) not in known)
        most = max(pairs.values())
        first = min((pair for pair in pairs if pairs[pair] == most), key=lambda pair: [*map(order.index, pair)])
        made.append("".join(first))
        order.append(made[-1])
        for row in rows:
            at = 0
            while at + 1 < len(row):
                if (row[at], row[at + 1]) == first:
                    row[at : at + 2] = ["".join(first)]
                at += 1
    after = load_tokenizer(tmp_path / "more")
    assert [after.piece(token) for token in range(after.vocabulary.size - 6, after.vocabulary.size)] == made
    for text in (*DOMAIN, "Immunology, unimmune\n the  rats"):
        ids = Library.from_file(str(tmp_path / "more" / "tokenizer.json")).encode(text, add_special_tokens=False).ids
        assert after.encode([text])[0].ids.tolist() == ids


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("byte_bpe", ["pieces=0"], "pieces"),
        ("byte_bpe", ["min_frequency=1000"], "no two pieces are neighbors 1000 times"),
        ("byte_bpe", ["output=BASE"], "is there already"),
        ("character", [], "expected a byte-level BPE or WordPiece"),
    ],
)
def test_mistakes(tmp_path, capsys, kind, words, message):
    base = trained(tmp_path, kind)
    given = [f"input={domain(tmp_path)}", f"output={tmp_path / 'more'}", *words]
    assert main([str(base), *(word.replace("BASE", str(base)) for word in given)]) == 64
    assert message in capsys.readouterr().err
    assert not (tmp_path / "more").exists()
