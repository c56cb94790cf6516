"""Split text into words and punctuation marks as datatrove does: by the rules of spaCy's blank English tokenizer.

The thresholds of the quality filters were set on such tokens. A mark is a token of its own, `don't` is two, and an
abbreviation keeps its full stop. No model is needed; benchmarks/filters.py measures the agreement.
"""

import re
from itertools import chain
from typing import Final

_LONGEST: Final = 256  # characters; a longer run without white space is no word and is split at marks, in linear time
_SUFFIX_CHARS: Final = 32
_CACHED: Final = 1 << 17

_QUOTES: Final = "'\"”“`‘´’‚„»«「」『』（）〔〕【】《》〈〉⟦⟧"
_MARKS: Final = "…,:;!?¿؟¡()\\[\\]{}<>_#*&。？！，、；：～·।۔،؛٪"
_UNSPACED_MARKS: Final = "。？！，、；：।۔،؛"
_CURRENCY: Final = "$£€¥฿₽﷼₠-₿"
_ICONS: Final = "¦©®°↕-⏿␀-⑊⒜-ⓩ─-➿⠀-⣿⬀-⯿\U0001f000-\U0001faff"
_LOWER: Final = "a-zß-öø-ÿα-ωа-я"
_UPPER: Final = "A-ZÀ-ÖØ-ÞΑ-ΩА-Я"
_LETTER: Final = "[^\\W\\d_]"
_AFTER_WORD: Final = f"(?:(?<={_LETTER})|(?<=[0-9]))"

_PREFIX: Final = re.compile(f"\\.\\.+|\\+(?![0-9])|(?:US|C|A)\\$|[§%=—–{_CURRENCY}{_MARKS}{_QUOTES}{_ICONS}]")
_SUFFIX: Final = re.compile(
    f"(?:\\.\\.+|[—–{_MARKS}{_QUOTES}{_ICONS}]|['’][sS]|(?<=[0-9])(?:[+{_CURRENCY}]|[kcm]?m[²³]?|[kmµ]?g|km/h|[kMGT]B|[%KMT])"
    f"|(?<=[0-9{_LOWER}%²+\\-{_MARKS}{_QUOTES}])\\.|(?<=[{_UPPER}][{_UPPER}])\\.)$"
)
_INFIX: Final = re.compile(
    f"\\.\\.+|[…{_UNSPACED_MARKS}{_ICONS}]|(?<=[0-9])[+\\-*^](?=[0-9-])|(?<=[{_LOWER}{_QUOTES}])\\.(?=[{_UPPER}{_QUOTES}])"
    f"|(?<={_LETTER}),(?={_LETTER})|{_AFTER_WORD}(?:-{{1,3}}|[–~]|—+|[:<>=/])(?={_LETTER})"
)
_URL: Final = re.compile(
    "(?:[\\w+.-]{2,20}://)?(?:[^\\s@]+@)?(?:[^\\W_](?:[\\w-]{0,62}[^\\W_])?\\.)+[a-z]{2,63}(?::\\d{2,5})?(?:[/?#]\\S*)?"
)
_EMOTICON: Final = re.compile("[:;=8][o'-]?[()\\[\\]DPpOoX*/|03>]|[(\\[]-?[:;=]|\\)-?:|\\]=")
_ABBREVIATION_WORDS: Final = (
    "a.m. p.m. e.g. E.g. i.e. I.e. vs. v.s. Ph.D. D.C. N.C. N.D. N.H. N.J. N.M. N.Y. S.C. Adm. Ala. Apr. Ariz. Ark. "
    "Aug. Bros. Calif. Co. co. Colo. Conn. Corp. Dec. Del. Dr. Feb. Fla. Ga. Gen. Gov. Ia. Id. Ill. Inc. Ind. Jan. Jr. "
    "Jul. Jun. Kan. Ky. La. Ltd. Mar. Mass. Md. Messrs. Mich. Minn. Miss. Mo. Mont. Mr. Mrs. Ms. Mt. Neb. Nev. Nov. "
    "Oct. Okla. Ore. Pa. Prof. Rep. Rev. Sen. Sep. Sept. St. Tenn. Va. Wash. Wis. and/or w/o C++ \\n \\t '' 'd 'll 're "
    "'s ’d ’ll ’re ’s a. b. c. d. e. f. g. h. i. j. k. l. m. n. o. p. q. r. s. t. u. v. w. x. y. z. ä. ö. ü."
)
_ABBREVIATIONS: Final = frozenset(_ABBREVIATION_WORDS.split())
_CONTRACTION: Final = re.compile(
    "((?:ai|are|ca|could|dare|did|do|does|had|has|have|is|may|might|must|need|ought|sha|should|was|were|wo|would)(?=n['’]t)"
    "|(?:could|he|how|i|it|let|might|must|she|should|that|there|they|this|we|what|when|where|who|why|would|you)(?=['’]))"
    "(n?['’](?:d|ll|m|re|s|t|ve))(['’]ve)?|(can)(not)",
    re.IGNORECASE,
)
_PLAIN: Final = re.compile("\\w+|[^\\w\\s]")


def word_tokens(text: str) -> list[str]:
    """Return the words and punctuation marks of a text, in order, without white space.

    "Don't go (yet)." -> ["Do", "n't", "go", "(", "yet", ")", "."]
    """
    return list(chain.from_iterable(map(_KNOWN_CHUNKS.__getitem__, text.split())))


class _Chunks(dict[str, tuple[str, ...]]):
    """Cache of the tokens of chunks, the runs of characters between white space; most chunks recur."""

    def __missing__(self, chunk: str) -> tuple[str, ...]:
        if len(chunk) > _LONGEST:
            return tuple(_PLAIN.findall(chunk))
        if len(self) >= _CACHED:
            self.clear()
        tokens = self[chunk] = _split_chunk(chunk)
        return tokens


_KNOWN_CHUNKS: Final = _Chunks()


def _split_chunk(chunk: str) -> tuple[str, ...]:
    before: list[str] = []
    after: list[str] = []
    start, end = 0, len(chunk)
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
    # join two neighbors that make an abbreviation or an emoticon, left to right
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
    """Return the tokens of a chunk whose outer marks are gone."""
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
