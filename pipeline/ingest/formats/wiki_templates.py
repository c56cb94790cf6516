"""Render templates in the middle of sentences: numbers, dashes, foreign words, fractions.

A dump does not define the templates that its pages call, and many are programs. The table below
renders the usual ones of the English and German Wikipedia like a page does, without links, tooltips
and converted units.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Final

from clozeline.pipeline.ingest.formats.wiki_links import LANGUAGE_PREFIXES
from clozeline.pipeline.text.superscripts import is_exponent

_NUMBER: Final = re.compile(r"[+-]?\d{1,30}(?:\.\d{1,30})?", re.ASCII)
_RANGES: Final = {
    "-": "–",
    "–": "–",
    "to": " to ",
    "and": " and ",
    "or": " or ",
    "by": " by ",
    "x": " × ",
    "×": " × ",
    "*": " × ",
    "to(-)": " to ",
    "and(-)": " and ",
    "+/-": " ± ",
    "±": " ± ",
    "+": " + ",
    "/": "/",
}
"""Words between two numbers of a measurement."""
_SHOWN_UNITS: Final = {
    "c": "°C",
    "f": "°F",
    "m2": "m²",
    "km2": "km²",
    "sqkm": "km²",
    "m3": "m³",
    "sqmi": "sq mi",
    "sqft": "sq ft",
    "cuft": "cu ft",
    "ft2": "sq ft",
    "kph": "km/h",
    "long ton": "long tons",
    "ftin": "ft",
}
"""Units whose code differs from the text on a page."""


@dataclass(frozen=True, slots=True)
class TemplateCall:
    """A template call: rendered arguments, language of the wiki, and the text right before it."""

    positional: Sequence[str] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    language: str = "en"
    before: str = ""

    def get(self, index: int) -> str:
        """Return a positional argument; "" if it is absent."""
        return self.positional[index] if index < len(self.positional) else ""

    def first_named(self, *names: str) -> str:
        """Return the first of these named arguments that is present; "" if none is."""
        return next((self.named[name] for name in names if self.named.get(name)), "")


def find_template(name: str) -> Callable[[TemplateCall], str] | None:
    """Return the function that renders a template, or None if it is unknown.

    A name such as `lc:ABC` calls a parser function with a value.
    """
    function, colon, value = name.partition(":")
    if colon and (apply := _FUNCTIONS.get(function.strip().lower())) is not None:
        return partial(apply, value.strip())
    known = name.lower().replace("_", " ").removeprefix("template:").removeprefix("vorlage:")
    return _TEMPLATES.get(known.strip())


def format_number(text: str, language: str) -> str:
    """Return a number in the format of a language, `12,345` in English; other text unchanged."""
    digits = text.replace(",", "") if language == "en" else text
    if not _NUMBER.fullmatch(digits):
        return text
    from babel import UnknownLocaleError
    from babel.numbers import format_decimal

    try:
        shown = format_decimal(
            Decimal(digits), locale=language.replace("-", "_"), decimal_quantization=False
        )
    except (UnknownLocaleError, ValueError):
        return text

    return f"\u2212{shown[1:]}" if shown.startswith("-") else str(shown)


def _format_function(value: str, call: TemplateCall) -> str:
    return value if call.get(0).upper() in ("R", "NOSEP") else format_number(value, call.language)


_FUNCTIONS: Final[Mapping[str, Callable[[str, TemplateCall], str]]] = {
    "formatnum": _format_function,
    "lc": lambda value, _: value.lower(),
    "uc": lambda value, _: value.upper(),
    "lcfirst": lambda value, _: value[:1].lower() + value[1:],
    "ucfirst": lambda value, _: value[:1].upper() + value[1:],
}
"""Parser functions of MediaWiki, written as `name:value`."""


def _fill(form: str, call: TemplateCall) -> str:
    """Return a form with the first two arguments of a call as `{0}` and `{1}`."""
    return form.format(call.get(0) or call.first_named("text", "quote", "content"), call.get(1))


def _show_last(call: TemplateCall) -> str:
    return call.positional[-1] if call.positional else call.first_named("text")


def _show_japanese(call: TemplateCall) -> str:
    behind = ", ".join(filter(None, call.positional[1:3]))
    return f"{call.get(0)} ({behind})" if call.get(0) and behind else call.get(0) or behind


def _show_number(call: TemplateCall) -> str:
    return format_number(call.get(0), call.language)


def _show_raised(call: TemplateCall) -> str:
    raised = call.get(0)
    return f"^{raised}" if is_exponent(raised, call.before) else raised


def _show_fraction(call: TemplateCall) -> str:
    """`{{frac|2}}` is 1/2, `{{frac|3|1|2}}` is 3 1/2."""
    parts = [part for part in call.positional[:3] if part]
    if len(parts) == 3:
        return f"{parts[0]} {parts[1]}/{parts[2]}"
    return "/".join(parts if len(parts) == 2 else ["1", *parts])


def _show_circa(call: TemplateCall) -> str:
    return " – ".join(f"c. {year}" for year in call.positional[:2] if year) or "c."


def _show_floruit(call: TemplateCall) -> str:
    return f"fl. {'–'.join(filter(None, call.positional[:2]))}".strip()


def _show_as_of(call: TemplateCall) -> str:
    if alternative := call.first_named("alt"):
        return alternative

    from babel.dates import get_month_names

    year, month, day = (call.get(index) for index in range(3))
    number = int(month) if month.isdecimal() and len(month) <= 2 else 0
    named = get_month_names(locale="en").get(number, month)

    if day and call.first_named("df") == "us":
        date = f"{named} {day}, {year}"
    else:
        date = " ".join(filter(None, (day, named, year)))

    word = "since" if call.first_named("since") else "as of"
    return f"{word if call.first_named('lc') else word.capitalize()} {date}".strip()


def _show_measure(call: TemplateCall) -> str:
    """`{{convert|5|to|7|km|mi}}` is 5 to 7 km: all words up to the first unit."""
    text = ""
    words = call.positional
    for index, word in enumerate(words):
        if word.lower() in _RANGES:
            text += _RANGES[word.lower()]
        elif any(map(str.isnumeric, word)) and not word[0].isalpha():
            text += format_number(word, call.language).replace("+", " ", 1).lstrip()
        elif word:
            text += f" {_SHOWN_UNITS.get(word.lower(), word)}"
            # further units follow in measures such as 5 ft 11 in
            has_further = (
                index + 2 < len(words)
                and words[index + 1][:1].isdecimal()
                and words[index + 2][:1].isalpha()
            )
            if not has_further:
                break
            text += " "

    return text.strip()


def _show_quantity(call: TemplateCall) -> str:
    """`{{unité|5|km|2}}` is 5 km^2."""
    unit = "^".join(filter(None, call.positional[1:3]))
    return f"{_show_number(call)} {unit}".strip()


def _show_value(call: TemplateCall) -> str:
    """`{{val|1.5|0.2|e=6|u=m}}` is 1.5±0.2×10^6 m."""
    text = call.get(0)
    for part in call.positional[1:3]:
        text += part if part[:1] in "(+-−–" else f"±{part}"
    if exponent := call.first_named("e"):
        text += f"×10^{exponent}"
    over = call.first_named("up", "upl")
    return f"{text} {call.first_named('u', 'ul')}".rstrip() + (f"/{over}" if over else "")


_TEMPLATE_GROUPS: Final[tuple[tuple[Callable[[TemplateCall], str] | str, str], ...]] = (
    (
        " – ",
        "snd|spnd|sndash|spndash|spaced ndash|spaced en dash|snds|spaced en dash space",
    ),
    (" — ", "smd|spaced mdash|spaced em dash"),
    ("–", "ndash|en dash|–"),
    ("—", "mdash|em dash|—"),
    (" ", "nbsp|nbs|spaces|space|thinsp|thin space|hairsp|nnbsp|zwsp"),
    (" · ", "·|dot|middot|mdot|bullet|•"),
    ("|", "!"),
    ("=", "="),
    ("'", "'"),
    ("' ", "' "),
    (_show_measure, "convert|cvt|conv|convertinfobox"),
    (_show_value, "val"),
    (_show_number, "num|nts|nombre|formatnum|formatnumber|zahl|fontnum"),
    (_show_quantity, "unité|unite|nb|unidad"),
    (lambda call: f"{_show_number(call)} m", "höhe"),
    (_show_fraction, "frac|sfrac|fraction|bruch|sfracn|fract"),
    (_show_circa, "circa|c.|ca."),
    (_show_floruit, "floruit|fl."),
    (_show_as_of, "as of|asof|as-of"),
    ("×10^{0}", "e|×10^|x10^"),
    ("10^{0}", "10^|esp"),
    (_show_raised, "sup|superscript|hochgestellt"),
    ("{0}", "sub|subscript|tiefgestellt"),
    (
        "{0}",
        "nowrap|nobr|nobreak|no wrap|nowr|small|smaller|klein|kleiner|kl|big|bigger|larger|large|"
        "abbr|abbrlink|abbrv|abk|abkürzung|tooltip|ill|interlanguage link|illm|sc|smallcaps|"
        "small caps|sc1|sc2|em|strong|bold|italic|italics|underline|mvar|math|var|tt|mono|kbd|key|"
        "unicode|as written|sic|not a typo|notatypo|typo|nobold|normal|noitalic|noitalics|iast|"
        "angbr|mention|flag|flagcountry|flagu|hebr|arab|polytonisch|polytonic|script|ipa-all",
    ),
    (
        "{0}",  # German abbreviations of languages, which stand before a word
        "ens|frs|las|grcs|ars|rus|its|ess|pls|jas|trs|hes|fas|nls|zhs|kos|pts|css|hus|svs|das|eos|"
        "sas|uks|els",
    ),
    ("{1}", "langx"),
    (
        _show_last,
        "lang|transl|translit|transliteration|xlit|wikt-lang|ipa|lautschrift|color|colour|colored|"
        "font color|fontcolor|farbe|resize|font|hover title",
    ),
    (lambda call: " ".join(filter(None, call.positional[:2])), "sortname|ship|schiff"),
    (lambda call: "".join(call.positional), "chem|chem2|linktext|gaps"),
    ("{1}", "audio"),
    ("HMS {0}", "hms"),
    ("USS {0}", "uss"),
    ("SS {0}", "ss"),
    ("'s", "'s"),
    (_show_japanese, "nihongo|nihongo2"),
    ("„{0}“", '"'),
    ("\n{0}\n", "quote|blockquote|cquote|quotation|zitat|zitat-en|bq|poemquote|poem quote"),
    (
        lambda call: " ".join(call.positional[:3]),
        "date|date-|date de naissance|date de naissance-|date de décès|date de décès-",
    ),
    ("US${0}", "us$|usd|usdconvert"),
    ("€{0}", "eur|€|euro"),
    ("£{0}", "gbp|£|gbpconvert"),
    ("₹{0}", "inr|₹|inrconvert"),
    ("¥{0}", "jpy|¥|cny|jpyconvert"),
)
"""How templates show their arguments, as a function or as a form for `_fill`, and their names."""
_TEMPLATES: Final[Mapping[str, Callable[[TemplateCall], str]]] = {
    **{
        f"{prefix}-{code}": partial(_fill, "{0}")
        for prefix in ("lang", "ipa")
        for code in LANGUAGE_PREFIXES | {"grc"}
    },
    **{
        name: partial(_fill, show) if isinstance(show, str) else show
        for show, names in _TEMPLATE_GROUPS
        for name in names.split("|")
    },
}
