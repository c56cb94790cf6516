"""Dirt of a spoilt corpus: kinds of documents that a pipeline should remove, made from clean prose.

Each function of `MAKERS` turns a clean document into one spoilt document, with a generator of its own for each
document, so that documents do not depend on each other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

_FURNITURE: Final = (
    "Home | About {site} | Contact | Sitemap", "Skip to main content", "Subscribe to the {site} newsletter",
    "You are here: {site} > Archive > {word}", "Share this page on your favorite network",
    "Sign in or create an account to comment", "{site} uses cookies to improve your experience",
    "Related articles on {site}", "Print this page | Send by e-mail", "Back to top", "Previous entry | Next entry",
    "© {site}. All rights reserved.", "Terms of use | Privacy policy | Imprint",
)  # fmt: skip
_SLOGANS: Final = (
    "BUY NOW and save {percent}%!!!", "Limited offer: {word} {word} for only ${price}.99 ...",
    "Click here for the best {word} deals of the year!", "★ {word} ★ {word} ★ free shipping ★",
    "Cheap {word}, discount {word}, {word} online without a prescription", "Order {word} today >>> 24/7 support >>>",
    "Win a {word}! Enter the code {code} at checkout.", "Top {price} {word} stores near you | compare prices",
)  # fmt: skip
_GOODS: Final = (
    "watches", "pills", "handbags", "loans", "casino", "sneakers", "phones", "insurance", "perfume", "software",
    "mattress", "vitamins", "poker", "jewelry", "printers", "flights", "hotels", "tires", "cameras", "sunglasses",
)  # fmt: skip
SITES: Final = 24
"""Sites of the corpus; each has lines of its own on its spoilt pages."""
_LINES_PER_SITE: Final = 6
_CHANGED_WORDS: Final = 0.02
"""Share of words that a near copy changes; five-word shingles then overlap by about 0.8."""


@dataclass(frozen=True)
class Spoilt:
    """A document with dirt: its text, and the lines or items that were put into it."""

    text: str
    planted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Material:
    """Material of dirt: words of the clean corpus, texts in other languages, and evaluation items."""

    words: Sequence[str]
    foreign: Sequence[str]
    items: Sequence[str]

    def draw_words(self, draws: np.random.Generator, count: int) -> list[str]:
        """Return words drawn with their frequency."""
        return [self.words[index] for index in draws.integers(0, len(self.words), count)]


def copy_exactly(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text as it is, for another address."""
    return Spoilt(text)


def copy_nearly(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text with a few words dropped, repeated or replaced; paragraphs stay."""
    paragraphs = []
    for paragraph in text.split("\n"):
        words: list[str] = []
        for word in paragraph.split(" "):
            kind = draws.random() / _CHANGED_WORDS
            if not word or kind >= 1:
                words.append(word)
            elif kind >= 2 / 3:
                words += [word, word]
            elif kind >= 1 / 3:
                words += material.draw_words(draws, 1)
        paragraphs.append(" ".join(words))
    return Spoilt("\n".join(paragraphs))


def add_boilerplate(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text between lines of its site: navigation above, notices below."""
    of_site = np.random.Generator(np.random.Philox(key=site))
    chosen = of_site.choice(len(_FURNITURE), _LINES_PER_SITE, replace=False)
    words = {"site": f"Site{site}", "word": _GOODS[site % len(_GOODS)].title()}
    lines = [_FURNITURE[index].format_map(words) for index in chosen]
    top = int(draws.integers(1, _LINES_PER_SITE))
    return Spoilt("\n".join([*lines[:top], text, *lines[top:]]), tuple(lines))


def write_foreign(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return a text in another language."""
    return Spoilt(material.foreign[int(draws.integers(len(material.foreign)))])


def write_salad(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return words of the corpus without order: half of the documents in sentences, half as lists of rare words."""
    count = len(text.split())
    words = material.draw_words(draws, count)
    if draws.random() < 0.5:
        return Spoilt(", ".join(sorted(set(words), key=len, reverse=True)))
    ends = set(draws.integers(0, count, count // 12).tolist())
    return Spoilt(" ".join(f"{word.strip('.,;!?')}." if i in ends else word for i, word in enumerate(words)))


def write_advert(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return slogans and prices, with repetitions."""
    lines = []
    for _ in range(int(draws.integers(8, 24))):
        slogan = _SLOGANS[int(draws.integers(len(_SLOGANS)))]
        while "{word}" in slogan:
            slogan = slogan.replace("{word}", _GOODS[int(draws.integers(len(_GOODS)))], 1)
        percent, price, code = (int(number) for number in draws.integers(5, 95, 3))
        lines.append(slogan.format(percent=percent, price=price, code=f"SAVE{code}"))
    return Spoilt("\n".join(lines))


def plant_item(text: str, site: int, draws: np.random.Generator, material: Material) -> Spoilt:
    """Return the text with an evaluation item between two of its paragraphs."""
    item = material.items[int(draws.integers(len(material.items)))]
    paragraphs = text.split("\n")
    paragraphs.insert(int(draws.integers(len(paragraphs) + 1)), item)
    return Spoilt("\n".join(paragraphs), (item,))


MAKERS: Final[Mapping[str, Callable[[str, int, np.random.Generator, Material], Spoilt]]] = {
    "exact": copy_exactly,
    "near": copy_nearly,
    "boilerplate": add_boilerplate,
    "language": write_foreign,
    "salad": write_salad,
    "advert": write_advert,
    "leak": plant_item,
}
"""Kinds of dirt; `exact` and `near` are added to the original, `boilerplate` and `leak` spoil it."""
SPOILING: Final = ("boilerplate", "leak")
"""Kinds that take the position of a clean document; the others are further documents."""
COPIES: Final = ("exact", "near")
