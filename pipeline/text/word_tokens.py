"""Split text into words and punctuation marks like datatrove: spaCy's blank English tokenizer.

The thresholds of the quality filters were set on such tokens. A mark is a separate token, `don't`
is two, and an abbreviation keeps its full stop. No model is needed; the tests in
tests/pipeline/clean/filters compare with spaCy.
"""

import re
import unicodedata
from collections.abc import Iterable
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.pipeline.text.normal_form import count_words

_LONGEST_WORD: Final = 256
"""Maximum characters of a word; a longer string is split at marks, in linear time."""
_SUFFIX_CHARS: Final = 32
_MOST_CACHED: Final = 1 << 17
_INITIAL_CAPACITY: Final = 1 << 12
_COLUMNS: Final = ("lengths", "sizes", "letters", "word_counts", "has_letter")
_KOREAN: Final = re.compile("[\uac00-\ud7a3]")
_ANY_LETTER: Final = re.compile(r"[^\W\d_]")
_ALPHANUMERIC: Final = re.compile(r"[^\W_]")

_QUOTES: Final = "'\"”“`‘´’‚„»«「」『』（）〔〕【】《》〈〉⟦⟧"
_MARKS: Final = "…,:;!?¿؟¡()\\[\\]{}<>_#*&。？！，、；：～·।۔،؛٪"
_UNSPACED_MARKS: Final = "。？！，、；：।۔،؛"
_CURRENCY: Final = "$£€¥฿₽﷼₠-₿"
_ICONS: Final = "¦©®°↕-⏿␀-⑊⒜-ⓩ─-➿⠀-⣿⬀-⯿\U0001f000-\U0001faff"
_LOWER: Final = "a-zß-öø-ÿα-ωа-я"
_UPPER: Final = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
_LETTER: Final = "[^\\W\\d_]"
_AFTER_WORD: Final = f"(?:(?<={_LETTER})|(?<=[0-9]))"

_PREFIX: Final = re.compile(
    f"\\.\\.+|\\+(?![0-9])|(?:US|C|A)\\$|[§%=—–{_CURRENCY}{_MARKS}{_QUOTES}{_ICONS}]"
)
_SUFFIX: Final = re.compile(
    f"(?:\\.\\.+|[—–{_MARKS}{_QUOTES}{_ICONS}]|['’][sS]"
    f"|(?<=[0-9])(?:[+{_CURRENCY}]|[kcm]?m[²³]?|[kmµ]?g|km/h|[kMGT]B|[%KMT])"
    f"|(?<=[0-9{_LOWER}%²+\\-{_MARKS}{_QUOTES}])\\.|(?<=[{_UPPER}][{_UPPER}])\\.)$"
)
_INFIX: Final = re.compile(
    f"\\.\\.+|[…{_UNSPACED_MARKS}{_ICONS}]|(?<=[0-9])[+\\-*^](?=[0-9-])"
    f"|(?<=[{_LOWER}{_QUOTES}])\\.(?=[{_UPPER}{_QUOTES}])|(?<={_LETTER}),(?={_LETTER})"
    f"|{_AFTER_WORD}(?:-{{1,3}}|[–~]|—+|[:<>=/])(?={_LETTER})"
)
_URL: Final = re.compile(
    "(?:[\\w+.-]{2,20}://)?(?:[^\\s@]+@)?(?:[^\\W_](?:[\\w-]{0,62}[^\\W_])?\\.)+"
    "[a-z]{2,63}(?::\\d{2,5})?(?:[/?#]\\S*)?"
)
_EMOTICON: Final = re.compile("[:;=8][o'-]?[()\\[\\]DPpOoX*/|03>]|[(\\[]-?[:;=]|\\)-?:|\\]=")
_ABBREVIATION_WORDS: Final = (
    "a.m. p.m. e.g. E.g. i.e. I.e. vs. v.s. Ph.D. D.C. N.C. N.D. N.H. N.J. N.M. N.Y. S.C. Adm. "
    "Ala. Apr. Ariz. Ark. Aug. Bros. Calif. Co. co. Colo. Conn. Corp. Dec. Del. Dr. Feb. Fla. Ga. "
    "Gen. Gov. Ia. Id. Ill. Inc. Ind. Jan. Jr. Jul. Jun. Kan. Ky. La. Ltd. Mar. Mass. Md. Messrs. "
    "Mich. Minn. Miss. Mo. Mont. Mr. Mrs. Ms. Mt. Neb. Nev. Nov. Oct. Okla. Ore. Pa. Prof. Rep. "
    "Rev. Sen. Sep. Sept. St. Tenn. Va. Wash. Wis. and/or w/o C++ \\n \\t '' 'd 'll 're 's ’d ’ll "
    "’re ’s a. b. c. d. e. f. g. h. i. j. k. l. m. n. o. p. q. r. s. t. u. v. w. x. y. z. ä. ö. ü."
)
_ABBREVIATIONS: Final = frozenset(_ABBREVIATION_WORDS.split())
_BEFORE_NOT: Final = (
    "ai|are|ca|could|dare|did|do|does|had|has|have|is|may|might|must|need|ought|sha|should|was|"
    "were|wo|would"
)
_BEFORE_APOSTROPHE: Final = (
    "could|he|how|i|it|let|might|must|she|should|that|there|they|this|we|what|when|where|who|why|"
    "would|you"
)
_CONTRACTION: Final = re.compile(
    f"((?:{_BEFORE_NOT})(?=n['’]t)|(?:{_BEFORE_APOSTROPHE})(?=['’]))"
    "(n?['’](?:d|ll|m|re|s|t|ve))(['’]ve)?|(can)(not)",
    re.IGNORECASE,
)
_PLAIN_MARKS: Final = (",", ";", "!", "?")
_PLAIN: Final = re.compile("\\w+|[^\\w\\s]")


class TokenTable(dict[str, tuple[int, ...]]):
    """The distinct tokens of many texts, each with an id, and their properties by id.

    "Don't go (yet)." has the tokens "Do", "n't", "go", "(", "yet", ")" and ".".

    Most chunks (strings between white space) recur; each is split once, and the table maps it to
    the ids of its tokens. Ids index the `columns`. `lengths` are in characters. For tokens with a
    letter or digit, `sizes` and `letters` are the lengths with and without combining marks (a
    Korean syllable has two characters and one letter), and `word_counts` is more than 1 in a script
    without blanks; for others they are 0. Nothing in the table refers to it, so it is freed with
    its last text.
    """

    def __init__(self) -> None:
        super().__init__()
        self.tokens: list[str] = []
        self.columns = {name: np.zeros(_INITIAL_CAPACITY, np.int64) for name in _COLUMNS}
        self._ids: dict[str, int] = {}

    def ids_of(self, chunks: Iterable[str]) -> NDArray[np.int64]:
        """Return the id of each token of the chunks, in order."""
        return np.fromiter(chain.from_iterable(map(self.__getitem__, chunks)), np.int64)

    def __missing__(self, chunk: str) -> tuple[int, ...]:
        ids = tuple(map(self.add, _split_any(chunk)))
        if len(chunk) <= _LONGEST_WORD:
            self[chunk] = ids
        return ids

    def add(self, token: str) -> int:
        """Return the id of a token; a new token is added."""
        number = self._ids.setdefault(token, len(self.tokens))
        if number == len(self.tokens):
            columns = self.columns
            if number == len(columns["lengths"]):
                for name, column in columns.items():
                    columns[name] = np.concatenate((column, np.zeros_like(column)))

            self.tokens.append(token)
            columns["lengths"][number] = len(token)
            # the first character nearly always decides; the patterns are for tokens such as `'s`
            if token[0].isalnum() or _ALPHANUMERIC.search(token) is not None:
                columns["sizes"][number] = len(token) + _count_syllables(token)
                columns["letters"][number] = _count_letters(token)
                columns["word_counts"][number] = count_words(token)
                columns["has_letter"][number] = (
                    token[0].isalpha() or _ANY_LETTER.search(token) is not None
                )

        return number


def _count_letters(token: str) -> int:
    """Count the characters of a token without combining marks, such as vowel signs of Tamil."""
    if token.isascii() or token.isalpha():
        return len(token)
    return sum(not unicodedata.category(character).startswith("M") for character in token)


def _count_syllables(token: str) -> int:
    """Count Korean syllables, each of which is one character for two or three letters."""
    return 0 if token.isascii() else len(_KOREAN.findall(token))


_shared = TokenTable()


def shared_table() -> TokenTable:
    """Return the table of this process; a full one is replaced, but texts may still use it."""
    global _shared
    if max(len(_shared), len(_shared.tokens)) >= _MOST_CACHED:
        _shared = TokenTable()
    return _shared


def _split_any(chunk: str) -> tuple[str, ...]:
    return tuple(_PLAIN.findall(chunk)) if len(chunk) > _LONGEST_WORD else _split_chunk(chunk)


def _split_chunk(chunk: str) -> tuple[str, ...]:
    # most chunks are letters, or letters and a mark: only the pattern of `cannot` matches inside
    word, mark = (chunk[:-1], chunk[-1:]) if chunk[-1:] in _PLAIN_MARKS else (chunk, "")
    if word.isalpha() and not (len(word) == 6 and word.lower() == "cannot"):
        return (word, mark) if mark else (word,)
    return _split_marks(chunk)


def _split_marks(chunk: str) -> tuple[str, ...]:
    before: list[str] = []
    after: list[str] = []
    start = 0
    end = len(chunk)
    # strip marks off both ends, one at a time, down to an abbreviation, emoticon or contraction
    while start < end and not _split_known(chunk[start:end]):
        prefix = _PREFIX.match(chunk, start, end)
        suffix = _SUFFIX.search(chunk, max(start, end - _SUFFIX_CHARS), end)
        if prefix is None and suffix is None:
            break
        if prefix is not None:
            before.append(prefix[0])
            start = prefix.end()
            if _split_known(chunk[start:end]):
                break
        if suffix is not None and suffix.start() >= start:
            after.append(suffix[0])
            end = suffix.start()

    # join two neighbors that form an abbreviation or an emoticon, left to right
    tokens: list[str] = []
    last = ""

    for part in (*before, *_split_inside(chunk[start:end]), *reversed(after)):
        if last and _is_single(last + part):
            tokens[-1] += part
            last = ""
        else:
            tokens.append(part)
            last = part

    return tuple(tokens)


def _is_single(word: str) -> bool:
    return word in _ABBREVIATIONS or (len(word) <= 3 and _EMOTICON.fullmatch(word) is not None)


def _split_known(word: str) -> tuple[str, ...]:
    """Return the tokens of an abbreviation, an emoticon or a contraction; () for other words."""
    if _is_single(word):
        return (word,)
    match = _CONTRACTION.fullmatch(word)
    return tuple(part for part in match.groups() if part) if match else ()


def _split_inside(word: str) -> tuple[str, ...]:
    """Return the tokens of a chunk without outer marks."""
    known = _split_known(word)
    if known or not word or word.isalpha() or _URL.fullmatch(word):
        return known or ((word,) if word else ())
    parts: list[str] = []
    at = 0
    for match in _INFIX.finditer(word):
        if match.start():
            parts += [word[at : match.start()], match[0]]
            at = match.end()
    return tuple(part for part in (*parts, word[at:]) if part)
