"""Reject URLs by lists of domains, addresses and words (RefinedWeb, arXiv:2306.01116, G.1)."""

import re
from dataclasses import field
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from clozeline.configuration.config import LocalPath, Positive, config_class
from clozeline.pipeline.clean.filters import (
    DATA_FILE,
    KEEP,
    Document,
    Filter,
    HashedTerms,
    TextStatistics,
    Verdict,
    read_terms,
)
from clozeline.pipeline.text.hosts import (
    LONGEST_HOST,
    ascii_host,
    ascii_url,
    extract_host,
    parent_domains,
)

_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")
_SCHEME: Final = re.compile("^[a-z][a-z0-9+.-]*://")

Lists = list[LocalPath]


class Url(Filter):
    """Rejects pages by their URL, before their text is extracted.

    You provide the lists, with one term per line; Clozeline has none. A listed domain covers all
    hosts below it. Hosts are compared in ASCII form: `bücher.example` is `xn--bcher-kva.example`. A
    host that is too long for DNS is rejected as `url_host`. Documents without a URL are kept.

    With `example.org` in `domains`, `https://shop.example.org/a` is rejected as `url_domain`
    """

    VERSION = 2
    before_extraction = True
    reasons = (
        "url_host",
        "url_domain",
        "url_listed",
        "url_banned_word",
        "url_soft_words",
        "url_banned_subword",
    )

    @config_class
    class Options:
        """The lists; if the content of one changes, pages are cleaned again."""

        domains: Lists = field(default_factory=list, metadata=DATA_FILE)
        """files of domains and hosts, such as `example.org`; `adult` covers all hosts below
        `.adult`"""
        urls: Lists = field(default_factory=list, metadata=DATA_FILE)
        """files of complete addresses; their scheme and a final slash do not count"""
        banned_words: Lists = field(default_factory=list, metadata=DATA_FILE)
        """files of words that no URL may have; words end at marks, and case does not matter"""
        soft_words: Lists = field(default_factory=list, metadata=DATA_FILE)
        """files of words; a URL must have fewer of them than `soft_word_threshold`"""
        soft_word_threshold: Positive = 2
        """number of different soft words that rejects a page, ≥ 1"""
        banned_subwords: Lists = field(default_factory=list, metadata=DATA_FILE)
        """files of strings that no URL may have, also across marks: `ab` is in `a-b`"""

        def __post_init__(self) -> None:
            if not (
                self.domains
                or self.urls
                or self.banned_words
                or self.soft_words
                or self.banned_subwords
            ):
                raise ValueError(
                    "expected at least one list, got none: name a file in `domains`, `urls`, "
                    "`banned_words`, `soft_words` or `banned_subwords`"
                )

    def __init__(self, options: Options) -> None:
        self._domains = HashedTerms(options.domains, ascii_host)
        self._urls = HashedTerms(options.urls, strip_scheme)
        self._banned = _read_words(options.banned_words)
        self._soft = _read_words(options.soft_words)
        self._subwords = _read_words(options.banned_subwords)
        self._threshold = options.soft_word_threshold

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict on a page from its URL."""
        if (url := document.url) is None:
            return KEEP
        host = extract_host(url) or ""
        if len(host) > LONGEST_HOST:
            return Verdict("url_host", f"{len(host)} characters > {LONGEST_HOST}")
        if self._domains.contains_any(parent_domains(host)):
            return Verdict("url_domain", host)
        if self._urls.contains_any([strip_scheme(url)]):
            return Verdict("url_listed", url)

        words = split_words(url)
        if banned := self._banned.intersection(words):
            return Verdict("url_banned_word", min(banned))
        if len(soft := self._soft.intersection(words)) >= self._threshold:
            return Verdict(
                "url_soft_words",
                f"{len(soft)} soft words >= {self._threshold}: {', '.join(sorted(soft))}",
            )

        joined = "".join(words)
        if inside := [subword for subword in self._subwords if subword in joined]:
            return Verdict("url_banned_subword", min(inside))
        return KEEP


def _read_words(paths: list[Path]) -> frozenset[str]:
    terms = (term for path in paths for term in read_terms(path))
    return frozenset("".join(split_words(term)) for term in terms)


def split_words(text: str) -> list[str]:
    """Return the words of a URL in lower case.

    `https://a.org/Free_Fun` -> ["https", "a", "org", "free", "fun"]
    """
    return [word for word in _BETWEEN_WORDS.split(unquote(text).lower()) if word]


def strip_scheme(url: str) -> str:
    """Return a URL in lower case, its host in ASCII form, without scheme and final slash."""
    return _SCHEME.sub("", ascii_url(url.lower())).rstrip("/")
