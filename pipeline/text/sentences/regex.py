"""Split sentences by rules: marks, quotes, abbreviations, initials, ordinals, paragraphs."""

import re
from functools import cache
from typing import ClassVar, Final, NamedTuple

from clozeline.configuration.config import config_class
from clozeline.pipeline.text.sentence_marks import (
    BURMESE_COMMA,
    DOUBLE_BLANK,
    GREEK_QUESTION,
    OTHER_MARKS,
    SENTENCE_TERMINAL,
)
from clozeline.pipeline.text.sentences import SentenceSplitter
from clozeline.pipeline.text.sentences.phrases import Phrases


class _Rules(NamedTuple):
    """The rules of a language; words are in lower case, without their final full stop."""

    never: frozenset[str]  # a full stop after one of these ends no sentence
    numeric: frozenset[str]  # ends no sentence before a digit
    maybe: frozenset[str]  # ends a sentence only before one of `openers`
    openers: frozenset[str]  # words that often start a sentence
    ordinals: bool  # read one or two digits and a full stop as an ordinal (German `3. Oktober`)


def _make_rules(
    never: str, numeric: str, maybe: str, openers: str, *, ordinals: bool = False
) -> _Rules:
    never_, numeric_, maybe_, openers_ = (
        frozenset(words.split()) for words in (never, numeric, maybe, openers)
    )
    return _Rules(never_, numeric_, maybe_, openers_, ordinals)


_ENGLISH: Final = _make_rules(
    never=(
        "mr mrs ms messrs mme dr prof rev hon sr st mt ft gen col lt sgt capt cmdr maj adm gov "
        "pres sen rep supt e.g i.e eg ie viz cf vs v al approx dept est ext misc ave blvd"
    ),
    numeric=(
        "no nos nr p pp fig figs vol vols ch chap sec secs art eq eqs par para ed eds pt tab ref "
        "refs ver jan feb mar apr jun jul aug sep sept oct nov dec c ca"
    ),
    maybe=(
        "i etc inc ltd co corp bros jr ph.d m.d b.a m.a b.sc m.sc u.s u.k u.n e.u u.s.a d.c a.m "
        "p.m a.d b.c jan feb mar apr jun jul aug sep sept oct nov dec mon tue wed thu fri sat sun"
    ),
    openers=(
        "the a an this that these those he she it we they i you his her its our their my there "
        "here in on at as but and so if when while after before for from with by to what who where "
        "why how however then no yes not all some many most one two both each every another such "
        "although because since"
    ),
)
_GERMAN: Final = _make_rules(
    never=(
        "hr hrn fr dr prof dipl ing st sel z.b d.h u.a i.d.r bzw vgl ca sog evtl ggf inkl exkl "
        "insb mind max min geb gest verh allg bes dgl einschl engl franz lat griech kath ev jh jhd "
        "z.t z.zt u.u o.ä s.o s.u i.a a.d v.a m.e d.i zzgl abzgl gem lt rd str tel phil med jur "
        "rer nat theol hl"
    ),
    numeric="nr art abs bd s kap abb tab jg h aufl ziff § vers fig p vol no",
    maybe=(
        "usw etc u.s.w v.chr n.chr jan feb mär apr jun jul aug sep sept okt nov dez gmbh ag co kg "
        "mio mrd tsd mo fr sa"
    ),
    openers=(
        "der die das ein eine er sie es wir ihr ich du dies diese dieser dieses jene im in am an "
        "auf aus bei mit nach seit von zu als wenn weil und aber doch denn so da dann hier dort "
        "nun nur auch für durch über unter vor während obwohl nachdem man sein seine was wer wie "
        "wo warum"
    ),
    ordinals=True,
)
_FRENCH: Final = _make_rules(
    never=(
        "m mm mme mmes mlle mlles dr pr me mgr st ste vve cap lt col gén p.ex c.-à-d cf env av apr "
        "boul bd dép éd hab ex"
    ),
    numeric="n no nos p pp fig vol t chap art al § éd tab sect janv févr avr juil sept oct nov déc",
    maybe="etc j.-c s.a s.a.r.l r.a.t.p s.n.c.f u.e o.n.u janv févr avr juil sept oct nov déc",
    openers=(
        "le la les l un une des il elle ils elles on nous vous je tu ce cet cette ces son sa ses "
        "leur leurs mais et ou donc or car dans en à au aux de du d pour par avec sans sur sous "
        "après avant quand lorsque si comme c qui que quoi où pourquoi comment alors puis ainsi "
        "cependant"
    ),
)
_SPANISH: Final = _make_rules(
    never=(
        "sr sra sres srta srtas dr dra dres prof profa lic ing arq gral cnel tte cap d dña dn fr "
        "sto sta mons p.ej ej cf vs av avda aprox depto dpto admón excmo excma ilmo ilma ud uds vd "
        "vds"
    ),
    numeric=(
        "n no núm nº p pág págs pp fig vol cap art t c ed tab ene feb mar abr may jun jul ago sep "
        "sept oct nov dic"
    ),
    maybe="etc s.a s.l ee.uu e.e.u.u u.e a.c d.c a.m p.m cía ltda jr c.v",
    openers=(
        "el la los las lo un una unos unas él ella ellos ellas yo tú nosotros usted ustedes este "
        "esta estos estas ese esa eso esto su sus mi mis pero y o si no en a al de del con sin por "
        "para sobre entre desde hasta cuando donde como que quien qué cómo dónde después antes "
        "luego entonces así también hay es fue"
    ),
)
_LANGUAGES: Final = {"en": _ENGLISH, "de": _GERMAN, "fr": _FRENCH, "es": _SPANISH}

_IS_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")
_BASIC_MARKS: Final = SENTENCE_TERMINAL[: SENTENCE_TERMINAL.index("\U00010a56")]
"""The marks of the Basic Multilingual Plane."""

_WITHOUT_MARKS: Final = ("th", "lo")
"""Languages whose texts are split into phrases."""

# Marks that need white space after them, because numbers, names and abbreviations have them too.
# All others end a sentence alone: texts in their scripts omit the blank.
_SPACED = ".!?…‽؟\u061d\u061e։\u2024\u203c\u2047-\u2049\u2e2e᙮"
# French puts a (narrow, no-break) space before its closing guillemet; German closes with “ and with
# «. Informal English puts a blank before a closing bracket.
_CLOSERS = "(?:[ \u00a0\u202f]?»|[\"'”’“‘»«)\\]}）】」』》〉］｝”’])*+(?: [)\\]](?=\\s))?+"


@cache
def _candidate_pattern(astral: bool, greek: bool) -> re.Pattern[str]:
    """Return the pattern of possible ends of sentences.

    It starts with a single class, so that the engine skips from mark to mark; look-behinds then
    distinguish the cases. The second look-behind avoids trying a run of marks again at each of its
    characters. Classes with astral characters are slow, and used only for texts that have some.
    """
    spaced = _SPACED + (GREEK_QUESTION if greek else "")
    terminal = SENTENCE_TERMINAL if astral else _BASIC_MARKS
    alone = rf"(?![{spaced}{BURMESE_COMMA}])[{terminal}{OTHER_MARKS}｡]"
    return re.compile(
        rf"[{terminal}{OTHER_MARKS}{spaced}{DOUBLE_BLANK[0]}｡\n:;=*_](?:"
        rf"(?<=[{spaced}])(?<![{spaced}][{spaced}])(?P<more>[{spaced}]*+){_CLOSERS}(?=\s)"
        rf"|(?:(?<={alone})|(?<={DOUBLE_BLANK}))(?:[{spaced}]|{alone})*+{_CLOSERS}"
        r"|(?<=\n)[^\S\n]*+\n"
        # emoticons, and rows of stars or lines
        r"|(?P<sign>(?<=\s[:;=])-?[()DPp]|(?<![*_][*_])(?<=[*_])[*_]{2,}+)(?=\s)"
        r")"
    )


_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*+\n")
_OPENING: Final = "\"'“‘‹«„‚([{¿¡*_#–—-•・「『（【《〈 \t\u00a0\u202f"
_CONTINUING: Final = ",;:)]}%/=<>+.!?…‽؟։᙮"
_NEXT: Final = re.compile(rf"[{re.escape(_OPENING)}]*+(?P<word>[^\W_]*)")
_LONGEST_WORD: Final = 40
_LONG_WORD: Final = re.compile(r"[^\W\d_]{4}\Z")
_INITIAL: Final = re.compile(r"[^\W\d_]\Z|(?:[^\W\d_]{1,2}\.-?)+[^\W\d_]{1,2}\Z")


def _main_code(language: str) -> str:
    """Return a language without its subtags."""
    return language.partition("-")[0].partition("_")[0]


class Regex(SentenceSplitter):
    """Splits after a mark that ends a sentence, and at every empty line.

    A full stop does not end a sentence before a lower-case letter or a comma, nor after a title, an
    initial, an item number or (German) an ordinal. Question and exclamation marks do so before a
    lower-case letter, unless a quotation ends with them. Emoticons and rows of stars end a sentence
    before a capital. Closing quotes and brackets belong to the mark before them. Marks that are
    also used in numbers and names need a space behind them; those of Chinese, Japanese, Hindi,
    Urdu, Amharic, Burmese, Khmer and others do not. English, German, French and Spanish have rules;
    Thai and Lao are split into phrases, and other languages use the English rules. The time is
    linear in the length of the text.

    Example:
        "Dr. No met J. R. Smith. “Hi!” he said. 3.5 km." starts at 0, 24 and 39.
    """

    VERSION: ClassVar[int] = 4

    @config_class
    class Options:
        informal: bool = False
        """a full stop after a word of four or more letters ends a sentence before a lower-case
        letter too"""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._phrases = Phrases(Phrases.Options())

    def starts(self, text: str, language: str) -> list[int]:
        """Return the character offset of each sentence; subtags of the language are ignored."""
        if not text:
            return []
        language = _main_code(language)
        if language in _WITHOUT_MARKS:
            return self._phrases.starts(text, language)

        rules = _LANGUAGES.get(language, _ENGLISH)
        first = len(text) - len(text.lstrip())
        last = len(text.rstrip())
        starts = [0]
        candidates = _candidate_pattern(_IS_ASTRAL.search(text) is not None, language == "el")
        for match in candidates.finditer(text, first, last):
            if (start := match.end()) <= starts[-1]:
                continue  # white space behind the last sentence
            while start < last and text[start].isspace():
                start += 1
            if start < last and self._ends(text, match, start, rules):
                starts.append(start)

        return starts

    def splits_phrases(self, language: str) -> bool:
        return _main_code(language) in _WITHOUT_MARKS

    def _ends(self, text: str, match: re.Match[str], start: int, rules: _Rules) -> bool:
        """Return whether marks at `match` end a sentence; the text continues at `start`."""
        if match["sign"] is not None:
            return text[start].isupper()
        if match["more"] is None or _PARAGRAPH.search(text, match.end(), start):
            return True

        following = _NEXT.match(text, start, start + _LONGEST_WORD)
        word = following["word"] if following else ""
        if not word:
            return text[start] not in _CONTINUING
        mark = text[match.start()]

        if word[0].islower():
            if mark in "?!":  # "really? yes", but not after a quotation
                return not match.group().strip("?!")
            is_long = _LONG_WORD.match(text, max(0, match.start() - 4), match.start())
            if not (self.options.informal and match.group() == "." and is_long):
                return False

        single = mark == "." and not match["more"]
        return not single or self._full_stop_ends(text, match.start(), word, rules)

    def _full_stop_ends(self, text: str, mark: int, following: str, rules: _Rules) -> bool:
        before = text[max(0, mark - _LONGEST_WORD) : mark]
        words = before.split()
        if not words or before[-1].isspace():
            return True
        word = words[-1].lstrip(_OPENING)
        if word.isdecimal():
            if len(words) > 1 and words[-2].lower().rstrip(".") in rules.numeric:
                return True  # Abb. 3.
            item = len(words) == 1 or before[: -len(words[-1])].rstrip(" \t").endswith("\n")
            return not ((rules.ordinals and len(word) <= 2) or (item and len(word) <= 3))

        lower = word.lower()
        if lower in rules.never:
            return False
        if lower in rules.numeric and following[0].isdecimal():
            return False
        if lower in rules.maybe or _INITIAL.match(word):
            return following.lower() in rules.openers and (lower in rules.maybe or len(word) > 1)
        return True
