"""Replace personal data by tokens: e-mail and IP addresses, phone numbers, IBANs.

FineWeb, arXiv:2406.17557, section 3.8.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Final

from clozeline.configuration.config import config_class
from clozeline.pipeline.clean.filters import KEEP, Filter, Verdict
from clozeline.pipeline.ingest.documents.document import FLAG_PII_REPLACED, Document
from clozeline.pipeline.text.hosts import top_level_domains
from clozeline.pipeline.text.text_statistics import TextStatistics

# every repetition is bounded, so that the time is linear in the text
_EMAIL: Final = re.compile(
    r"(?<![\w.+%'-])[\w.+%'-]{1,64}(?<![.'])@"
    r"((?:[^\W_](?:[\w-]{0,62})\.){1,8}(?:xn--[a-z\d-]{1,59}|[^\W\d_]{2,24}))"
    r"(?![\w@])",
    re.IGNORECASE,
)
_IPV4: Final = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
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

    VERSION: ClassVar[int] = 2
    reasons: ClassVar[tuple[str, ...]] = ()

    @config_class
    class Options:
        """Personal data to replace."""

        email: bool = True
        """replace e-mail addresses"""
        ip: bool = True
        """replace public IPv4 and IPv6 addresses; version numbers such as 1.2.3.4 have the same
        form"""
        iban: bool = True
        """replace bank account numbers (IBAN) with a valid checksum"""
        phone: bool = False
        """replace phone numbers of 8 to 15 digits; also hits other grouped numbers"""

    def __init__(self, options: Options) -> None:
        self._options = options

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
        options = self._options
        if options.email and "@" in text:
            spans += [
                (match.start(), end, "email")
                for match in _EMAIL.finditer(text)
                if (end := _find_host_end(match))
            ]

        if options.iban:
            spans += [
                (*match.span(), "iban")
                for match in _IBAN.finditer(text)
                if has_iban_checksum(match[0])
            ]

        if options.ip:
            spans += [
                (*match.span(), "ip") for match in _IPV4.finditer(text) if is_public(match[0])
            ]
            if "::" in text or text.count(":") >= 7:
                spans += [
                    (*match.span(), "ip") for match in _IPV6.finditer(text) if is_public(match[0])
                ]

        if options.phone:
            spans += [
                (*match.span(), "phone") for match in _PHONE.finditer(text) if is_phone(match[0])
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


def is_public(address: str) -> bool:
    """Return whether a string is a public IP address; of IPv6, in the block 2000::/3."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_global and (parsed.version == 4 or int(parsed) >> 125 == 1)


def has_iban_checksum(text: str) -> bool:
    """Return whether the checksum of an account number is valid: 1 modulo 97 (ISO 13616)."""
    compact = re.sub(r"\s", "", text)
    digits = "".join(str(int(character, 36)) for character in compact[4:] + compact[:4])
    return int(digits) % 97 == 1


def is_phone(text: str) -> bool:
    """Return whether digits look like a phone number.

    It has 8 to 15 digits, in groups or after a plus, and is not a date or like 123-45-6789.
    """
    digits = sum(map(str.isdigit, text.partition("x")[0]))
    return 8 <= digits <= 15 and digits < len(text) and _OTHER_NUMBER.match(text) is None
