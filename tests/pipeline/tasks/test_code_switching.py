from __future__ import annotations

import doctest
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.formats.dictionaries import read_dictionary
from clozeline.pipeline.ingest.formats.limits import Limits
from clozeline.pipeline.tasks import training_items
from clozeline.pipeline.tasks.readers import LabeledText, Rejected, TaggedWords, TaskFacts, TaskItem
from clozeline.pipeline.tasks.training_items import check_switched_head
from clozeline.pipeline.text.code_switching import CodeSwitchConfig, Dictionary, WordSwitcher

TEXTS = TaskFacts(name="toy", head="classification", labels=("no", "yes"), metrics=("accuracy",))
TAGS = TaskFacts(name="ner", head="tagging", labels=("O", "B-PER", "I-PER"), metrics=("entity_f1",))
GERMAN: Dictionary = {"cat": ["Katze"], "black": ["schwarz", "dunkel"], "new": ["ganz neu"]}
FRENCH: Dictionary = {"cat": ["chat"], "runs": ["court"]}


def config(sentences: float = 1.0, words: float = 1.0) -> CodeSwitchConfig:
    return CodeSwitchConfig(dictionaries=[Path("x")], sentence_rate=sentences, word_rate=words)


def code_switch(
    items: Sequence[TaskItem | Rejected],
    chosen: CodeSwitchConfig,
    dictionaries: Sequence[Dictionary],
    facts: TaskFacts,
    seed: int,
) -> Iterator[TaskItem | Rejected]:
    return training_items.code_switch(items, WordSwitcher(chosen, dictionaries, seed), facts)


def rows(count: int) -> list[LabeledText | TaggedWords | Rejected]:
    return [LabeledText(("The Cat's new, it runs!", "black cat"), index % 2, None, index) for index in range(count)]


def texts(found: object) -> tuple[str, ...]:
    assert isinstance(found, LabeledText)
    return found.texts


def test_words_of_a_dictionary_are_replaced_and_nothing_else_is() -> None:
    (found,) = code_switch(rows(1), config(), [{"cat": ["Katze"], "new": ["ganz neu"], "the": ["die"]}], TEXTS, seed=1)
    assert found == LabeledText(("Die Katze's ganz neu, it runs!", "black Katze"), 0, None, 0)


def test_languages_and_translations_are_drawn_and_answers_stay() -> None:
    """Each of two languages for about half of the words, whatever rows are beside a row."""
    found = list(code_switch(rows(400), config(), [GERMAN, FRENCH], TEXTS, seed=1))
    cats = [texts(one)[1].split()[1] for one in found]
    assert set(cats) == {"Katze", "chat"}
    assert 150 < cats.count("chat") < 250
    assert {texts(one)[1].split()[0] for one in found} == {"schwarz", "dunkel", "black"}
    assert [one.label for one in found if isinstance(one, LabeledText)] == [0, 1] * 200
    assert list(code_switch(rows(400)[7:9], config(), [GERMAN, FRENCH], TEXTS, seed=1)) == found[7:9]
    assert list(code_switch(rows(400), config(), [GERMAN, FRENCH], TEXTS, seed=2)) != found


def test_rates_are_those_of_rows_and_of_words() -> None:
    every: Dictionary = {word: ["x"] for word in ("the", "cat", "s", "new", "it", "runs", "black")}
    found = [texts(one) for one in code_switch(rows(500), config(0.4, 0.7), [every], TEXTS, seed=3)]
    changed = [one for one in found if one != texts(rows(1)[0])]
    assert 160 < len(changed) < 240
    share = sum(" ".join(one).lower().count("x") for one in changed) / (8 * len(changed))
    assert 0.65 < share < 0.75


def test_the_words_of_a_translation_have_the_class_of_its_word() -> None:
    given = TaggedWords(("New", "cat", "sat"), (1, 2, 0), 4, "doc")
    refused = Rejected("fields", 5)
    found = list(
        code_switch([given, refused], config(), [{"new": ["ganz neue"], "cat": ["kleine Katze"]}], TAGS, seed=1)
    )
    assert found == [TaggedWords(("Ganz", "neue", "kleine", "Katze", "sat"), (1, 2, 2, 2, 0), 4, "doc"), refused]


def test_examples_in_docstrings() -> None:
    assert doctest.testmod(training_items).failed == 0


def test_files_of_words_and_translations(tmp_path: Path) -> None:
    path = tmp_path / "en-de.txt"
    path.write_text("cat Katze\nCat\tKater\nnew\tganz neu\n\n", encoding="utf-8")
    assert read_dictionary(path, Limits(), "key") == {"cat": ["Katze", "Kater"], "new": ["ganz neu"]}
    refused = {
        b"cat\n": "line 1: expected a word and its translation, got 'cat'", b"": "got none",
        b"a b\ncat K\xe4tzchen\n": "line 2: expected a word and its translation, got 'bad_utf8'",
    }  # fmt: skip
    for content, message in refused.items():
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=message):
            read_dictionary(path, Limits(), "key")
    with pytest.raises(ConfigurationError, match="no such file"):
        read_dictionary(tmp_path / "none.txt", Limits(), "key")


def test_answers_that_are_places_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="replaced words move the answers of the head span"):
        check_switched_head(TaskFacts(name="squad", head="span", metrics=("f1",)))
