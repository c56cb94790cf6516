from __future__ import annotations

from dataclasses import replace

import pytest

from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.pipeline.tokenize.tokenizers._pieces import PieceTable
from clozeline.pipeline.tokenize.tokenizers._published import Published


def test_facts_come_back_and_a_changed_byte_is_noticed(tmp_path):
    facts = Published(
        specials={"mask": "<m>"}, sentinels=["<e>"], added=["<e>"], spares=["<r>"], lower_case=True,
        padding_side="left", max_length=9, notes=["a note"],
    )  # fmt: skip
    facts.save(tmp_path)
    assert Published.load(tmp_path) == facts
    path = tmp_path / "published.json"
    path.write_text(path.read_text().replace("<m>", "<n>"))
    with pytest.raises(IntegrityError, match="import the tokenizer again"):
        Published.load(tmp_path)


def test_pieces_with_roles_are_special():
    facts = Published(specials={"mask": "<m>", "cls": "<m>"}, sentinels=["<e>"], modes={"R": "<r>"})
    table = PieceTable([b" a\n", None, b"<m>\n", None, None], ["_a", "<c>", "<m>", "<e>", "<r>"])
    vocabulary = facts.vocabulary(table, {"name": "x"})
    assert vocabulary.special.tolist() == [False, True, True, True, True]
    assert (vocabulary.specials, vocabulary.sentinels, vocabulary.modes) == ({"mask": 2, "cls": 2}, (3,), {"R": 4})
    assert vocabulary.word_start.tolist() == [True, False, False, False, False]
    assert vocabulary.fingerprint != replace(facts, sentinels=[]).vocabulary(table, {"name": "x"}).fingerprint
    assert vocabulary.fingerprint == replace(facts, notes=["guessed"]).vocabulary(table, {"name": "x"}).fingerprint
    assert vocabulary.word_end is not None
    assert vocabulary.word_end.tolist() == [True, False, False, False, False]
    with pytest.raises(ConfigurationError, match="has no '<q>'"):
        Published(specials={"mask": "<q>"}).vocabulary(table, {})
