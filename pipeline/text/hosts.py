"""Hosts of URLs in one form, ASCII and lower case, so that every way to write a name compares equal."""

import re
import unicodedata
from functools import cache
from typing import Final
from urllib.parse import unquote, urlsplit

import idna
import tld

LONGEST_HOST: Final = 253
"""Characters of the longest name that DNS can hold (RFC 1035, section 3.1.2, without the final
dot)."""

_DOTS: Final = re.compile("[.\u3002\uff0e\uff61]")
# scheme, user, name: what follows the name, and an IPv6 address, stays
_NAME: Final = re.compile(r"((?:[a-z][a-z\d+.-]*:)?//)?([^/?#@]*@)?([^/?#:@\[\]]*)", re.IGNORECASE)


def ascii_host(host: str) -> str:
    """Return a host in ASCII form and lower case, without a final dot; a name that is too long stays in its script.

    "Bücher.Example." -> "xn--bcher-kva.example"
    """
    if not host.isascii() and len(host) <= LONGEST_HOST:
        host = ".".join(map(_ascii_label, _DOTS.split(host)))
    return host.lower().rstrip(".")


def _ascii_label(label: str) -> str:
    try:
        return label if label.isascii() else idna.encode(label, uts46=True).decode()
    except UnicodeError:  # such as an emoji, which IDNA 2008 forbids and browsers look up
        label = unicodedata.normalize("NFKC", label.lower())
        return label if label.isascii() else f"xn--{label.encode('punycode').decode()}"


def extract_host(url: str | None) -> str | None:
    """Return the host of a URL in ASCII form, without user and port; None if there is none."""
    try:
        host = urlsplit(url or "").hostname or ""
    except ValueError:
        return None
    return ascii_host(unquote(host) if ":" not in host else host) or None


def ascii_url(url: str) -> str:
    """Return a URL, also one without scheme, with its host in ASCII form."""
    return _NAME.sub(
        lambda match: f"{match[1] or ''}{match[2] or ''}{ascii_host(match[3])}", url, count=1
    )


def parent_domains(host: str) -> list[str]:
    """Return a host and the domains above it that DNS can hold: `a.b.org` -> ["a.b.org", "b.org", "org"]."""
    labels = host[-LONGEST_HOST - 1 :].split(".")[len(host) > LONGEST_HOST :] if host else []
    return [".".join(labels[start:]) for start in range(len(labels))]


@cache
def top_level_domains() -> frozenset[str]:
    """Return all top-level domains in lower case, those in other scripts also in ASCII form; read from the package."""
    tries = tld.get_tld_names() or {}
    return frozenset(name for trie in tries.values() for name in trie.root.children or {} if name)
