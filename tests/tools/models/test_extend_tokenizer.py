"""A tokenizer with further pieces, against merges learned by hand, the library, and the tokenizer
as it was."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from tokenizers import Tokenizer as Library

from clozeline.pipeline.ingest.documents.document import Document, document_uid
from clozeline.pipeline.registries import TOKENIZERS
from clozeline.pipeline.tokenize.published.importing import import_tokenizer
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer, save_tokenizer
from clozeline.pipeline.tokenize.tokenizers._pieces import special_pieces
from clozeline.tools.models.extend_tokenizer import main as extend_tokenizer
from clozeline.tools.models.tokenizer_report import main as tokenizer_report_main
from tests.pipeline.tokenize.encode.encode_passes import write_parts
from tests.tools.small_run import plain_text

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
        names = [
            "[PAD]",
            "[UNK]",
            "[CLS]",
            "[SEP]",
            "[MASK]",
            *GENERAL[0].split(),
            *letters,
        ]
        names = list(dict.fromkeys([*names, *(f"##{letter}" for letter in letters)]))
        (folder / "vocab.txt").write_text("\n".join(names) + "\n", encoding="utf-8")
        import_tokenizer(folder / "vocab.txt", folder / "base")
        return folder / "base"

    found = TOKENIZERS.load_class(kind)
    room = len(special_pieces(16)) + (40 if kind == "wordpiece" else 256)
    tokenizer = found.train(
        [*GENERAL, "imunolgyte"], found.Options(size=room + 20), folder / "base"
    )
    save_tokenizer(tokenizer, kind, folder / "base")
    return folder / "base"


def domain(folder):
    path = folder / "domain.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in DOMAIN), encoding="utf-8")
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_old_ids_stay_and_words_of_the_domain_get_shorter(tmp_path, capsys, kind):
    base = trained(tmp_path, kind)
    new = 12 if kind == "wordpiece" else 10  # it lacks two letters
    words = [
        str(base),
        f"input={domain(tmp_path)}",
        f"output={tmp_path / 'more'}",
        f"pieces={new}",
        "min_frequency=5",
    ]

    assert extend_tokenizer(words) == 0

    before = load_tokenizer(base)
    after = load_tokenizer(tmp_path / "more")
    size = before.vocabulary.size

    assert after.vocabulary.size == size + new
    assert [after.piece(token) for token in range(size)] == [
        before.piece(token) for token in range(size)
    ]
    assert after.vocabulary.specials == before.vocabulary.specials

    for text in GENERAL[:1]:
        assert after.encode([text])[0].ids.tolist() == before.encode([text])[0].ids.tolist()
    ((short,), (long,)) = (
        [one.ids.tolist() for one in tokenizer.encode(["immunology"])]
        for tokenizer in (after, before)
    )

    assert len(short) == 1 < len(long)
    assert after.decode(short).strip() == "immunology"
    assert f"{new} new pieces from id" in capsys.readouterr().out


def test_merges_are_those_of_the_most_frequent_neighbors(tmp_path):
    """A slow reference: count all neighbors of all words, merge the most frequent pair, count
    again."""
    base = trained(tmp_path, "byte_bpe")

    assert (
        extend_tokenizer(
            [str(base), f"input={domain(tmp_path)}", f"output={tmp_path / 'more'}", "pieces=6"]
        )
        == 0
    )

    library = Library.from_file(str(base / "tokenizer.json"))
    rows = [
        [token.value for token in library.model.tokenize(word)]
        for text in DOMAIN
        for word, _ in library.pre_tokenizer.pre_tokenize_str(text)
    ]

    known = set(library.get_vocab())
    order = sorted({piece for row in rows for piece in row})
    made = []

    for _ in range(6):
        pairs = Counter(
            pair for row in rows for pair in pairwise(row) if "".join(pair) not in known
        )
        most = max(pairs.values())
        first = min(
            (pair for pair in pairs if pairs[pair] == most),
            key=lambda pair: [*map(order.index, pair)],
        )
        made.append("".join(first))
        order.append(made[-1])

        for row in rows:
            at = 0
            while at + 1 < len(row):
                if (row[at], row[at + 1]) == first:
                    row[at : at + 2] = ["".join(first)]
                at += 1

    after = load_tokenizer(tmp_path / "more")

    assert [
        after.piece(token) for token in range(after.vocabulary.size - 6, after.vocabulary.size)
    ] == made

    for text in (*DOMAIN, "Immunology, unimmune\n the  rats"):
        ids = (
            Library.from_file(str(tmp_path / "more" / "tokenizer.json"))
            .encode(text, add_special_tokens=False)
            .ids
        )
        assert after.encode([text])[0].ids.tolist() == ids


@pytest.mark.parametrize(
    ("kind", "words", "message"),
    [
        ("byte_bpe", ["min_frequency=1000"], "no two pieces are neighbors 1000 times"),
        ("byte_bpe", ["output=BASE/.."], "holds files already"),
        ("character", [], "expected a byte-level BPE or WordPiece"),
    ],
)
def test_mistakes(tmp_path, capsys, kind, words, message):
    base = trained(tmp_path, kind)
    given = [f"input={domain(tmp_path)}", f"output={tmp_path / 'more'}", *words]
    assert (
        extend_tokenizer(
            [
                str(base),
                *(word.replace("BASE", str(base)) for word in given),
            ]
        )
        == 64
    )
    assert message in capsys.readouterr().err
    assert not (tmp_path / "more").exists()


def test_letters_that_a_wordpiece_lacks_are_added_first(tmp_path, capsys):
    """Brackets and an umlaut stand in no word of the vocabulary.

    A word of 300 letters is no matter of letters.
    """
    base = trained(tmp_path, "wordpiece")
    texts = tmp_path / "code.txt"
    texts.write_text("the cat {sät} the rat\n" * 30 + f"{'h' * 300}\nthe µ\n", encoding="utf-8")

    assert (
        extend_tokenizer([str(base), f"input={texts}", f"output={tmp_path / 'more'}", "pieces=6"])
        == 0
    )

    before = load_tokenizer(base)
    after = load_tokenizer(tmp_path / "more")
    size = before.vocabulary.size
    unknown = after.vocabulary.specials["unk"]

    assert {after.piece(token) for token in range(size, size + 5)} == {
        "##ä",
        "{",
        "}",
        "##ät",
        "sät",
    }
    assert unknown in before.encode(["{sät}"])[0].ids
    assert [after.piece(token) for token in after.encode(["{sät}"])[0].ids] == ["{", "sät", "}"]

    said = capsys.readouterr().out
    # 30 x 5 letters, the long word and the µ of 30 x 22 + 301 + 5 characters
    assert f"unknown characters {100 * 451 / 966:.1f} % before, {100 * 301 / 966:.1f} % now" in said
    assert "still unknown: words too long for the tokenizer (300 characters)" in said
    assert "still unknown: letters that the vocabulary lacks (1 characters), such as µ" in said
    assert "min_frequency" in said


TEXTS = [("en", "a bird sang"), ("de", "ein Käfer"), ("en", "a bird, a tree"), ("zh", "")]


@pytest.fixture
def words(tmp_path):
    """A tokenizer of five pieces: a, " a", " bird", " Käfer" and " dog"."""
    chosen = TOKENIZERS.resolve({"name": "word", "min_frequency": 1})
    text = "a bird Käfer dog a"
    tokenizer = TOKENIZERS.load_class("word").train([text], chosen.options, tmp_path / "tokenizer")
    save_tokenizer(tokenizer, "word", tmp_path / "tokenizer")
    return tokenizer


def test_the_table_has_both_sides_of_pairs(words, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    (_, english), (_, german), (_, more), (_, empty) = TEXTS
    documents = [
        document(0, english, "en", target_text=german, target_language="de"),
        document(1, more, "en"),
        document(2, empty, "zh"),
    ]

    stage = write_parts(tmp_path / "clean", documents, 2).folder

    assert tokenizer_report_main([str(tmp_path / "tokenizer"), str(stage)]) == 0

    shown = plain_text(capsys.readouterr().out)

    assert "en 2 7 8 1.14 0.320 37.500 44.00 60.00" in shown
    assert "de 1 2 2 1.00 0.200 50.000 33.33 20.00" in shown
    assert "zh 1 0 0 – – – – 0.00" in shown
    assert "words that the vocabulary lacks (13 characters), such as" in shown


def test_a_folder_without_documents_is_named(words, tmp_path, capsys):
    assert tokenizer_report_main([str(tmp_path / "tokenizer"), str(tmp_path)]) == 64
    assert f"{tmp_path}/documents: expected documents of a stage" in capsys.readouterr().err


def document(number, text, language, **more):
    uid = document_uid("test", "a.jsonl", "jsonl", number)
    return Document(
        uid=uid,
        text=text,
        source="a.jsonl",
        source_group="a",
        offset=number,
        length=1,
        url=None,
        language=language,
        **more,
    )
