"""Documents for the tests of dedup."""

import hashlib
import itertools
import random

from clozeline.pipeline.ingest.documents.document import Document


def document(number, text, **fields):
    """A document, whose uid may end with a zero."""
    uid = hashlib.blake2b(str(number).encode(), digest_size=16).digest()
    uid = uid[: 16 - number % 2].ljust(16, b"\0")
    made = Document(uid=uid, text=text, source="test/a", offset=number, **fields)
    return made.replace_text(text)


EXACT = {"exact": {}, "near": None}


NEAR = {"exact": None, "near": {}}


WORDS = [f"{a}{b}{c}" for a, b, c in itertools.product("bdfgklmnprst", "aeiou", "bdfgklmnprst")]


def prose(seed, words=200):
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(words))


def edited(text, *places):
    """Other words of the same length, which no prose has, at the given places."""
    words = text.split()
    for place in places:
        words[place] = f"x{chr(97 + place % 26)}{chr(97 + place // 26)}"
    return " ".join(words)
