"""Tagged words: files of CoNLL and CoNLL-U, and the tagging schemes, which seqeval reads too."""

import random

import pytest
from seqeval.scheme import IOB1, IOB2, IOBES, Entities

from clozeline.extensions.tasks.readers import Rejected, TaggedWords
from clozeline.extensions.tasks.readers._labels import to_bio
from tests.extensions.tasks.readers.reading import items_of, read, reader_of, reasons, written
from tests.refusals import refused

CONLL = """-DOCSTART- -X- -X- O

U.N. NNP I-NP I-ORG
official NN I-NP O

Ekeus NNP I-NP I-PER

-DOCSTART- -X- O O

Japan NNP I-NP I-LOC
China NNP B-NP B-LOC
"""


@pytest.mark.parametrize(
    ("options", "text", "sentences"),
    [
        # four columns of spaces in IOB1; marks of documents are no sentences
        (
            {},
            CONLL,
            [["U.N. B-ORG", "official O"], ["Ekeus B-PER"], ["Japan B-LOC", "China B-LOC"]],
        ),
        (
            {"entities": ["LOC"], "prefix": "en:"},
            "en:New\tB-LOC\nen:York\tE-LOC\nen:and\tO\nen:Rome\tS-LOC\n",
            [["New B-LOC", "York I-LOC", "and O", "Rome B-LOC"]],
        ),
        (
            {"entities": [], "tags": ["NNP", "NN"], "tag_column": 1},
            "Ada NNP O\nsong NN O\n",
            [["Ada NNP", "song NN"]],
        ),
        ({}, "100 000\tO\nmen\tO\n", [["100 000 O", "men O"]]),
        ({}, "10\u00a0000 O\nAda  B-PER \n\n", [["10\u00a0000 O", "Ada B-PER"]]),
    ],
)
def test_words_and_tags(tmp_path, options, text, sentences):
    reader = reader_of("conll", **options)
    items = items_of(reader, written(tmp_path, text))
    labels = reader.metadata.labels
    found = [
        [f"{word} {labels[tag]}" for word, tag in zip(one.words, one.tags, strict=True)]
        for one in items
    ]

    assert found == sentences


def test_words_without_tags_are_read_to_be_tagged(tmp_path):
    """Their lines may hold the word alone; a damaged line costs its sentence."""
    path = written(tmp_path, b"en:Ada\nen:sang X\n\n\xff\n\nJapan NNP I-NP I-LOC\n")
    found = [*reader_of("conll", prefix="en:").read_unlabeled(path)]
    tagged = [
        TaggedWords(("Ada", "sang"), (0, 0), 0),
        Rejected("bad_utf8", 1),
        TaggedWords(("Japan",), (0,), 2),
    ]

    assert found == [(one, None) for one in tagged]


def test_documents_and_facts_of_the_original_files(tmp_path):
    reader = reader_of("conll")
    path = written(tmp_path, CONLL)

    assert reader.open(path).layout == "4 columns, spaces"

    items = items_of(reader, path)

    assert [(item.group, item.index) for item in items] == [
        ("document 1", 2),
        ("document 1", 5),
        ("document 2", 9),
    ]
    assert reader.metadata.labels == (
        "O",
        *(f"{mark}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for mark in "BI"),
    )
    assert reader.metadata.metrics == ("entity_f1", "strict_entity_f1", "accuracy")
    assert reader_of("conll", entities=[], tags=["A"]).metadata.metrics == ("accuracy",)

    for options in ({"tags": ["A", "B"]}, {"entities": []}):
        with refused("give entities or tags"):
            reader_of("conll", **options)


def test_a_bad_line_costs_its_sentence(tmp_path):
    text = b'" O\n\nAda I-PER more\n\nAda PER\n\nAda I-GOD\n\n\xff O\nAda O\n\nBob O\n'
    items = read(tmp_path, text, "conll")
    assert reasons(items) == {"fields": 1, "bad_label": 2, "bad_utf8": 1}
    assert [item.words for item in items if isinstance(item, TaggedWords)] == [('"',), ("Bob",)]
    assert read(tmp_path, "en:\tO\n", "conll", prefix="en:") == [Rejected("empty_word", 0)]


def line(number, form, upos):
    return f"{number}\t{form}\tlemma\t{upos}\tX\t_\t0\troot\t_\tSpaceAfter=No\n"


def test_treebanks(tmp_path):
    """A range of words and an empty node have no tag.

    A document begins at `# newdoc`, a paragraph at `# newpar`.
    """
    contraction = (
        line("1-2", "au", "_")
        + line("1", "a", "ADP")
        + line("2", "le", "DET")
        + line("3", "lac", "NOUN")
    )

    text = (
        f"# newdoc id = a\n# text = au lac\n{contraction}{line('3.1', 'est', 'VERB')}\n# "
        f"newpar\n{line('1', '#', 'SYM')}\n# newdoc\n{line('1', 'oui', 'INTJ')}"
    )
    labels = list(reader_of("conllu").metadata.labels)

    assert read(tmp_path, text, "conllu") == [
        TaggedWords(
            ("a", "le", "lac"), tuple(map(labels.index, ("ADP", "DET", "NOUN"))), 0, "document 1"
        ),
        TaggedWords(("#",), (labels.index("SYM"),), 8, "document 1"),
        TaggedWords(("oui",), (labels.index("INTJ"),), 11, "document 2"),
    ]
    assert len(labels) == 17
    assert read(
        tmp_path, line("1", "a", "DET"), "conllu", task="heads", column="deprel", tags=["root"]
    ) == [TaggedWords(("a",), (0,), 0)]


def test_a_bad_line_costs_its_sentence_of_a_treebank(tmp_path):
    parts = [line("1", "a", "DET"), line("1", "a", "WORD"), "1\ta\n", line("x", "a", "DET")]
    parts += [line("1-2", "a", "_"), "# alone\n", line("1", " ", "DET"), line("1", "b", "DET")]
    text = "\n".join(parts)

    items = read(tmp_path, text, "conllu")

    assert reasons(items) == {"bad_label": 1, "fields": 2, "no_words": 2, "empty_word": 1}
    assert [item.words for item in items if isinstance(item, TaggedWords)] == [("a",), ("b",)]
    assert [item.index for item in items if isinstance(item, Rejected)] == [2, 4, 6, 8, 10, 12]


def drawn_parts(seed):
    """Lengths and types of consecutive parts of a sentence; the type of words outside is O."""
    draw = random.Random(seed)
    return [
        (draw.randint(1, 3), draw.choice(("PER", "LOC", "O"))) for _ in range(draw.randint(1, 6))
    ]


def tags_of(parts, scheme):
    found = []
    before = "O"

    for length, kind in parts:
        if kind == "O":
            found += ["O"] * length
        elif scheme == "bioes":
            found += (
                [f"S-{kind}"]
                if length == 1
                else [f"B-{kind}", *[f"I-{kind}"] * (length - 2), f"E-{kind}"]
            )
        else:
            begins = "B" if scheme == "iob2" or before == kind else "I"
            found += [f"{begins}-{kind}", *[f"I-{kind}"] * (length - 1)]

        before = kind

    return found


@pytest.mark.parametrize("seed", range(30))
def test_every_scheme_becomes_iob2(seed):
    """As written apart from lists of entities, with the entities that seqeval reads in each
    scheme."""
    iob1, iob2, bioes = (tags_of(drawn_parts(seed), scheme) for scheme in ("iob1", "iob2", "bioes"))

    assert to_bio(iob1) == to_bio(iob2) == to_bio(bioes) == iob2

    found = [
        Entities([tags], scheme=scheme)
        for tags, scheme in ((iob1, IOB1), (iob2, IOB2), (bioes, IOBES))
    ]
    entities = [[(one.start, one.end, one.tag) for one in read.entities[0]] for read in found]

    assert entities[0] == entities[1] == entities[2]


@pytest.mark.parametrize("tag", ["PER", "B-", "X-PER", "", "-PER"])
def test_other_tags_are_refused(tag):
    with pytest.raises(ValueError, match="expected O, or B, I, E or S with a type"):
        to_bio(["O", tag])
