"""Dirt: each kind has the property that a pipeline should find, and nothing else changes."""

from __future__ import annotations

import numpy as np
import pytest

from clozeline.tools.experiments.multirun.dirt import MAKERS, SITES, Material

WORDS = [f"word{number}" for number in range(900)]
TEXT = "\n".join(" ".join(WORDS[start : start + 30]) for start in range(0, 900, 30))
MATERIAL = Material(WORDS, ["ein Text in einer anderen Sprache"], ["an item that was leaked"])


def make(kind: str, seed: int = 0, site: int = 3) -> tuple[str, tuple[str, ...]]:
    spoilt = MAKERS[kind](TEXT, site, np.random.Generator(np.random.Philox(key=seed)), MATERIAL)
    return spoilt.text, spoilt.planted


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + 5]) for start in range(len(words) - 4)}


def test_near_copies_share_most_shingles_but_not_all() -> None:
    own = shingles(TEXT)
    overlaps = [
        len(own & shingles(make("near", seed)[0])) / len(own | shingles(make("near", seed)[0])) for seed in range(40)
    ]
    assert 0.72 < np.mean(overlaps) < 0.92  # (1 - 0.02)^5 of the shingles stay: Jaccard 0.82
    assert max(overlaps) < 1


def test_boilerplate_surrounds_the_text_with_the_lines_of_its_site() -> None:
    planted = {site: make("boilerplate", site, site)[1] for site in range(SITES)}
    for site in range(SITES):
        text, lines = make("boilerplate", 99 + site, site)
        assert lines == planted[site]  # the same on all pages of a site
        assert "\n".join(line for line in text.split("\n") if line not in lines) == TEXT
        assert text.startswith(lines[0])
        assert text.endswith(lines[-1])
    assert len(set(planted.values())) == SITES


def test_items_stand_between_lines() -> None:
    text, (item,) = make("leak")
    lines = text.split("\n")
    assert lines.count(item) == 1
    lines.remove(item)
    assert "\n".join(lines) == TEXT


def test_copies_foreign_texts_and_salad() -> None:
    assert make("exact") == (TEXT, ())
    assert make("language") == (MATERIAL.foreign[0], ())
    for seed in range(8):
        salad = {word.strip(".,") for word in make("salad", seed)[0].split()}
        assert salad <= set(WORDS)
        assert not shingles(TEXT) & shingles(make("salad", seed)[0])


def test_half_of_the_salad_has_sentences_of_twelve_words() -> None:
    salads = [make("salad", seed)[0] for seed in range(200)]
    in_sentences = [salad for salad in salads if "," not in salad]
    assert abs(len(in_sentences) - 100) < 4 * 50**0.5
    for salad in in_sentences:
        words = salad.split()
        assert len(words) == len(WORDS)
        assert 0.6 < sum(word.endswith(".") for word in words) * 12 / len(words) <= 1


@pytest.mark.parametrize("kind", MAKERS)
def test_equal_draws_give_equal_documents(kind: str) -> None:
    assert make(kind, 5) == make(kind, 5)
    if kind not in ("exact", "language"):
        assert len({make(kind, seed)[0] for seed in range(6)}) > 1
