"""Texts with planted runs of evaluation items, and a search for them by sets, written from the
rules alone."""

import re
import unicodedata
from collections import Counter

SYLLABLES = [
    "ba",
    "de",
    "fi",
    "go",
    "ku",
    "la",
    "me",
    "ni",
    "po",
    "ru",
    "sa",
    "te",
    "vi",
    "xo",
    "zu",
]
VOCABULARY = [a + b + c for a in SYLLABLES for b in SYLLABLES[:9] for c in ("", "n", "r")]
UNSPACED = re.compile("[\u4e00-\u9fff\u3040-\u30ff\u0e00-\u0e7f]")


def words_of(text):
    """Casefold, decompose, drop marks, unspaced scripts letter by letter; operators are words."""
    folded = "".join(
        c for c in unicodedata.normalize("NFD", text.casefold()) if unicodedata.category(c) != "Mn"
    )
    return re.findall(r"\w+|[*+/<=>]+", UNSPACED.sub(r" \g<0> ", folded))


def runs_of(words, length):
    return [tuple(words[start : start + length]) for start in range(len(words) - length + 1)]


def brute_force(texts, items, ngram, most):
    """Return by all pairs of runs: the items of each text, clean items, too short items, and
    ignored runs."""
    entries = []

    for item in items:
        runs = set()

        for words in map(words_of, item):
            if len(words) >= ngram:
                runs |= set(runs_of(words, ngram))
            elif len(words) >= 5:
                runs.add(tuple(words))

        entries.append(runs)

    lengths = {len(run) for runs in entries for run in runs}
    held = [
        {run for length in lengths for run in runs_of(words_of(text), length)} for text in texts
    ]
    documents = Counter(run for runs in held for run in runs & set().union(*entries))
    ignored = {run for run, count in documents.items() if count > most}
    found = [
        {number for number, runs in enumerate(entries) if runs & text - ignored} for text in held
    ]
    return {
        "found": found,
        "ignored": ignored,
        "dirty": set().union(*found),
        "too_short": {number for number, runs in enumerate(entries) if not runs},
    }


def prose(draw, words):
    """Words in sentences, with commas, line ends and numbers."""
    parts = [draw.choice(VOCABULARY) for _ in range(words)]
    return " ".join(
        part + draw.choice(["", "", "", ",", ".\n", f" {draw.randrange(999)}"]) for part in parts
    )


def disguise(draw, text):
    """The same words for the match form: other case, accents, punctuation and white space."""
    changes = [
        str.upper,
        str.title,
        lambda word: unicodedata.normalize("NFC", word[0] + "\u0301" + word[1:]),
        lambda word: f"“{word}”",
        lambda word: f"{word} —",
        lambda word: f"{word}\u00a0\n",
        lambda word: word,
    ]

    return " ".join(draw.choice(changes)(word) for word in text.split())
