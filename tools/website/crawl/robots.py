"""Apply robots.txt by RFC 9309: parsed by protego, with stricter rules where protego permits more than the RFC.

The standard library's parser takes the first matching rule and reads `*` literally, so that a crawler would fetch pages
that a site excludes with a pattern.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from protego import Protego

_KNOWN: Final = ("user-agent", "allow", "disallow", "crawl-delay")
_ANOTHER: Final = "another crawler"


@dataclass(frozen=True, slots=True)
class Robots:
    """Rules of one site for one crawler."""

    parser: Protego
    name: str

    @classmethod
    def parse(cls, text: str, agent: str) -> Robots:
        r"""Read the groups that name `agent` (its part before `/`); without such a group, those for `*`.

        >>> robots = Robots.parse("User-agent: *\nDisallow: /*.pdf$\nDisallow: /a\nAllow: /a/b", "someone/1.0")
        >>> [robots.allows("http://x.org" + path) for path in ("/x.pdf", "/x.pdf?v=1", "/a/c", "/a/b/c")]
        [False, True, False, True]
        """
        name = agent.split("/")[0].strip().lower()
        return cls(Protego.parse("\n".join(_restrict_rules(text, name))), name)

    @classmethod
    def forbid_everything(cls) -> Robots:
        """Forbid a site whose robots.txt cannot be read at the moment (server errors)."""
        return cls.parse("User-agent: *\nDisallow: /", "*")

    def allows(self, url: str) -> bool:
        """Return whether a URL may be fetched: the longest matching rule decides, `Allow` among equals."""
        return self.parser.can_fetch(url, self.name)

    @property
    def delay(self) -> float:
        """Seconds between requests that the site requires."""
        return self.parser.crawl_delay(self.name) or 0.0


def _restrict_rules(text: str, name: str) -> Iterator[str]:
    """Yield the relevant lines in a form that protego reads as the RFC does.

    Protego lets an unknown line end a group, matches the beginning of a crawler's name, and lets `Allow: /index.html`
    allow `/` too.
    """
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = (part.strip() for part in line.partition("#")[0].partition(":"))
        key = key.lower()
        if not colon or key not in _KNOWN:
            continue
        if key == "user-agent" and value != "*":
            value = name if value.lower() == name else _ANOTHER
        if key == "allow" and value.endswith("/index.html"):
            value += "*"
        yield f"{key}: {value}"
