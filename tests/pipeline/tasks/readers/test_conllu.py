from __future__ import annotations

from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.tasks.readers import Rejected, TaggedWords
from tests.pipeline.tasks.readers.reading import items_of, published, reader_of, reasons, with_data, written


def line(number: str, form: str, upos: str) -> str:
    return f"{number}\t{form}\tlemma\t{upos}\tX\t_\t0\troot\t_\tSpaceAfter=No\n"


def test_words_of_contractions_are_tagged(tmp_path: Path) -> None:
    """The range and the empty node have no tag; a document begins at `# newdoc`, a paragraph at `# newpar`."""
    contraction = line("1-2", "au", "_") + line("1", "a", "ADP") + line("2", "le", "DET") + line("3", "lac", "NOUN")
    text = (
        f"# newdoc id = a\n# text = au lac\n{contraction}{line('3.1', 'est', 'VERB')}\n"
        f"# newpar\n{line('1', '#', 'SYM')}\n# newdoc\n{line('1', 'oui', 'INTJ')}"
    )
    reader = reader_of("conllu")
    labels = list(reader.facts.labels)
    assert items_of(reader, written(tmp_path, text)) == [
        TaggedWords(("a", "le", "lac"), tuple(map(labels.index, ("ADP", "DET", "NOUN"))), 0, "document 1"),
        TaggedWords(("#",), (labels.index("SYM"),), 8, "document 1"),
        TaggedWords(("oui",), (labels.index("INTJ"),), 11, "document 2"),
    ]
    assert len(labels) == 17


def test_another_column(tmp_path: Path) -> None:
    reader = reader_of("conllu", task="heads", column="deprel", tags=["root"])
    assert items_of(reader, written(tmp_path, line("1", "a", "DET"))) == [TaggedWords(("a",), (0,), 0)]
    assert reader.facts.name == "heads"


def test_refused_sentences(tmp_path: Path) -> None:
    text = (
        line("1", "a", "DET") + "\n" + line("1", "a", "WORD") + "\n1\ta\n\n" + line("x", "a", "DET") + "\n"
        + line("1-2", "a", "_") + "\n# alone\n\n" + line("1", " ", "DET") + "\n" + line("1", "b", "DET")
    )  # fmt: skip
    items = items_of(reader_of("conllu"), written(tmp_path, text))
    assert reasons(items) == {"bad_label": 1, "fields": 2, "no_words": 2, "empty_word": 1}
    assert [item.words for item in items if isinstance(item, TaggedWords)] == [("a",), ("b",)]
    assert [item.index for item in items if isinstance(item, Rejected)] == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize(
    ("text", "message"), [("a b\n", "got 1: 'a b'"), ("# only\n", "got none")], ids=["spaces", "none"]
)
def test_files_of_another_layout(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        reader_of("conllu").open(written(tmp_path, text))


@pytest.mark.data
@with_data
@pytest.mark.parametrize(
    ("file", "sentences", "words", "documents"),
    [("en_ewt-ud-dev", 2001, 25147, 318), ("fr_gsd-ud-dev", 1476, 35721, 0), ("zh_pud-ud-test", 1000, 21415, 1000)],
)
def test_real_files(file: str, sentences: int, words: int, documents: int) -> None:
    """Counts by `grep -c` of `# sent_id`, of ids that are plain numbers, and of `# newdoc`."""
    items = items_of(reader_of("conllu"), published(f"ud/{file}.conllu.zst"))
    assert not reasons(items)
    assert len(items) == sentences
    assert sum(len(item.words) for item in items) == words
    assert len({item.group for item in items} - {None}) == documents
