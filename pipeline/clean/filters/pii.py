"""Replace personal data by tokens: e-mail and IP addresses, phone numbers, IBANs.

FineWeb, arXiv:2406.17557, section 3.8.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import KEEP, Filter, TextStatistics, Verdict
from clozeline.pipeline.ingest.documents.document import FLAG_PII_REPLACED, Document
from clozeline.pipeline.text.hosts import top_level_domains

# every repetition is bounded, so that the time is linear in the text
_EMAIL: Final = re.compile(
    r"(?<![\w.+%'-])[\w.+%'-]{1,64}(?<![.'])@"
    r"((?:[^\W_](?:[\w-]{0,62})\.){1,8}(?:xn--[a-z\d-]{1,59}|[^\W\d_]{2,24}))"
    r"(?![\w@])",
    re.IGNORECASE,
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
_NUMBERED_STEMS: Final = (
    "versi|wersj|верси|releas|firmwar|section|secci|sezion|seção|seções|sekcj|sectie|abschnit|"
    "subsection|articl|artik|artíc|artigo|artyk|стать|rule|règle|regel|regla|regola|regra|reguł|"
    "правил|chapter|chapit|kapitel|capít|capitol|hoofdst|rozdzia|глав|раздел|пункт|clause|"
    "cláusul|claus|klausul|paragra|parágra|párraf|absatz|absätz|ziffer|punkt"
)
# whole words, because longer ones mean something else
_NUMBERED_WORDS: Final = (
    "v|ver|vers|rev|build|patch|sect?|secs|arts?|kap|chs?|chap|cap|paras?|parts?|tables?|figs?|"
    "figures?|abs|ziff|rozdz|pkt|ec|ст|гл"
)
_NUMBERED: Final = re.compile(
    rf"(?:[§第]|版本|バージョン|\b(?:(?:{_NUMBERED_STEMS})\w*|{_NUMBERED_WORDS})\b)[.:]?\s*"
    # further numbers of a list: `sections 1.2.3.4, 1.2.3.5 and 1.2.3.6`
    r"(?:\d+(?:\.\d+){2,}(?:[^.!?]{0,40}\b(?:and|or|und|oder|et|ou|y|o|e|en|of|i|lub|и|или)\b|"
    r"\s?[,;–-])\s*){0,4}$",
    re.IGNORECASE,
)
_IPV6: Final = re.compile(
    r"(?<![\w:.])[0-9A-Fa-f]{1,4}:(?:[0-9A-Fa-f]{0,4}:){1,7}"
    r"(?:[0-9A-Fa-f]{1,4}|(?<=::))(?!\w|:[\w:])"
)
_IBAN_COUNTRIES: Final = {
    15: "NO",
    16: "BE",
    18: "DK|FI|FK|FO|GL|NL|SD",
    19: "MK|SI",
    20: "AT|BA|EE|KZ|LT|LU|MN|XK",
    21: "CH|HR|LI|LV",
    22: "BG|BH|CR|DE|GB|GE|IE|ME|RS|VA",
    23: "AE|GI|IL|IQ|OM|SO|TL",
    24: "AD|CZ|ES|MD|PK|RO|SA|SE|SK|TN|VG",
    25: "LY|PT|ST",
    26: "IS|TR",
    27: "BI|DJ|FR|GR|IT|MC|MR|SM",
    28: "AL|AZ|BY|CY|DO|GT|HN|HU|LB|NI|PL|SV",
    29: "BR|EG|PS|QA|UA",
    30: "JO|KW|MU|YE",
    31: "MT|SC",
    32: "LC",
    33: "RU",
}
"""Countries by the length of their account numbers (IBAN registry, release 101)."""
# the length ends the match: a blank and the next word would look like another group
_IBAN_FORMS: Final = "|".join(
    rf"(?:{countries})\d\d(?:[ \xa0]?[A-Z\d]{{4}}){{{length // 4 - 1}}}(?:[ "
    rf"\xa0]?[A-Z\d]{{{length % 4}}})"
    for length, countries in _IBAN_COUNTRIES.items()
)
_IBAN: Final = re.compile(rf"(?<!\w)(?ai:{_IBAN_FORMS})(?!\w)")
_PHONE: Final = re.compile(
    r"(?<![\w.,/+-])\+?\(?\d{1,5}\)?(?:[ .\xa0-]{0,2}\(?\d{2,4}\)?){2,5}(?: "
    r"?x\d{1,5})?(?![\w/]|[.,-]\d)"
)
_OTHER_NUMBER: Final = re.compile(
    r"(?:19|20)\d\d[ .-]\d\d?[ .-]\d\d?|\d\d?[ .-]\d\d?[ .-](?:19|20)\d\d|\d{3}-\d\d-\d{4}$"
)


class Pii(Filter):
    """Replaces personal data by `<email>`, `<ip>`, `<phone>` and `<iban>`.

    The report counts the replaced characters.

    It inserts tokens, because a model would learn plausible values. Private IP addresses, IBANs
    with a wrong checksum and `a@2x.png`, which has no top-level domain, stay. Changed documents
    have the flag 8. Rules cannot find everything; the documentation says what they find.

    "Write to ann@example.org from 8.8.8.8." -> "Write to <email> from <ip>."
    """

    VERSION = 3

    @config_class
    class Options:
        """Personal data to replace."""

        email: bool = True
        """replace e-mail addresses"""
        ip: bool = True
        """replace public IPv4 and IPv6 addresses; `section 1.2.3.4` and `version 1.2.3.4` stay"""
        iban: bool = True
        """replace bank account numbers (IBAN) with a valid checksum"""
        phone: bool = False
        """replace phone numbers of 8 to 15 digits; also hits other grouped numbers"""

    options: Options

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the edited text; no text is rejected."""
        text = statistics.text
        last = 0
        pieces: list[str] = []
        removed: Counter[str] = Counter()

        for label, start, end in self.find_spans(text):
            token = f"<{label}>"
            pieces += [text[last:start], token]
            last = end
            removed[label] += end - start

        if not removed:
            return KEEP
        return Verdict(
            text="".join((*pieces, text[last:])), removed=removed, flags=FLAG_PII_REPLACED
        )

    def find_spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yield label, start and end of the spans to replace, in order; none overlap."""
        spans: list[tuple[int, int, str]] = []
        options = self.options
        if options.email and "@" in text:
            spans += [
                (match.start(), end, "email")
                for match in _EMAIL.finditer(text)
                if (end := _find_host_end(match))
            ]

        rules = (
            (options.iban, "iban", _IBAN, has_iban_checksum),
            (options.ip, "ip", _IPV4, is_public),
            (options.ip and ("::" in text or text.count(":") >= 7), "ip", _IPV6, is_public),
            (options.phone, "phone", _PHONE, is_phone),
        )
        spans += [
            (*match.span(), label)
            for wanted, label, pattern, is_right in rules
            if wanted
            for match in pattern.finditer(text)
            if is_right(match)
        ]

        # of overlapping spans, the first and longest one is replaced
        free = 0

        for start, end, label in sorted(spans, key=lambda span: (span[0], -span[1])):
            if start >= free:
                yield label, start, end
                free = end


def _find_host_end(address: re.Match[str]) -> int:
    """Return the end of the longest host with a known top-level domain; 0 if there is none.

    It is `org` in `a@b.org.Then`, and `a@2x.png` has none.
    """
    labels = address[1].split(".")
    while len(labels) > 1 and labels[-1].lower() not in top_level_domains():
        labels.pop()
    return address.start(1) + len(".".join(labels)) if len(labels) > 1 else 0


def is_public(match: re.Match[str]) -> bool:
    """Return whether a string is a public IP address; of IPv6, in the block 2000::/3.

    The number of a section or version, as in `section 12.3.4.1`, is none.
    """
    try:
        address = ipaddress.ip_address(match[0])
    except ValueError:
        return False
    if address.version == 6:
        return address.is_global and int(address) >> 125 == 1
    start = match.start()
    return address.is_global and not _NUMBERED.search(match.string, max(0, start - 120), start)


def has_iban_checksum(match: re.Match[str]) -> bool:
    """Return whether the checksum of an account number is valid: 1 modulo 97 (ISO 13616)."""
    compact = re.sub(r"\s", "", match[0])
    digits = "".join(str(int(character, 36)) for character in compact[4:] + compact[:4])
    return int(digits) % 97 == 1


def is_phone(match: re.Match[str]) -> bool:
    """Return whether digits look like a phone number.

    It has 8 to 15 digits, in groups or after a plus, and is not a date or like 123-45-6789.
    """
    text = match[0]
    digits = sum(map(str.isdigit, text.partition("x")[0]))
    return 8 <= digits <= 15 and digits < len(text) and _OTHER_NUMBER.match(text) is None
