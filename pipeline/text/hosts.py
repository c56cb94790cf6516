"""Normalize the hosts of URLs to ASCII and lower case, so that all spellings compare equal."""

import re
import unicodedata
from functools import cache
from typing import Final
from urllib.parse import unquote, urlsplit

import idna
import tld

from clozeline.pipeline.text.normal_form import cut_marks

LONGEST_HOST: Final = 253
"""Characters of the longest DNS name (RFC 1035, section 3.1.2, without the final dot)."""

_DOTS: Final = re.compile("[.\u3002\uff0e\uff61]")
# scheme, user, name; the part behind the name, and an IPv6 address, stays
_NAME: Final = re.compile(r"((?:[a-z][a-z\d+.-]*:)?//)?([^/?#@]*@)?([^/?#:@\[\]]*)", re.IGNORECASE)


def ascii_host(host: str) -> str:
    """Return a host in ASCII form and lower case, without a final dot.

    A name that is too long stays in its script.

    "Bücher.Example." -> "xn--bcher-kva.example"
    """
    if not host.isascii() and len(host) <= LONGEST_HOST:
        host = ".".join(map(_ascii_label, _DOTS.split(host)))
    return host.lower().rstrip(".")


def _ascii_label(label: str) -> str:
    try:
        return label if label.isascii() else idna.encode(label, uts46=True).decode()
    except UnicodeError:  # such as an emoji: IDNA 2008 forbids it, but browsers look it up
        label = unicodedata.normalize("NFKC", label.lower())
        return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def extract_host(url: str | None) -> str | None:
    """Return the host of a URL in ASCII form, without user and port; None if it has none."""
    try:
        host = urlsplit(cut_marks(url or "")).hostname or ""
    except ValueError:
        return None
    return ascii_host(unquote(host) if ":" not in host else host) or None


def ascii_url(url: str) -> str:
    """Return a URL, with or without a scheme, with its host in ASCII form."""
    return _NAME.sub(
        lambda match: f"{match[1] or ''}{match[2] or ''}{ascii_host(match[3])}", url, count=1
    )


def parent_domains(host: str) -> list[str]:
    """Return a host and the domains above it: `a.b.org` -> ["a.b.org", "b.org", "org"].

    Names that are too long for DNS are omitted.
    """
    labels = host[-LONGEST_HOST - 1 :].split(".")[len(host) > LONGEST_HOST :] if host else []
    return [".".join(labels[start:]) for start in range(len(labels))]


@cache
def top_level_domains() -> frozenset[str]:
    """Return all top-level domains of the package `tld`, in lower case and in ASCII form."""
    tries = tld.get_tld_names() or {}
    return frozenset(name for trie in tries.values() for name in trie.root.children or {} if name)
