"""robots.txt by RFC 9309: the longest matching rule wins, `*` and `$` have their meaning, Crawl-delay is honoured.

The standard library's parser takes the first matching rule and reads `*` literally, so it would fetch pages that a
site excludes with a pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tools.crawl.links import normalise_url

__all__ = ["Robots"]


@dataclass(frozen=True, slots=True)
class Robots:
    """What one site asks of one crawler: rules as (path pattern, allowed), and seconds between requests."""

    rules: tuple[tuple[str, bool], ...] = ()
    delay: float = 0.0

    def allows(self, url: str) -> bool:
        """Whether the address may be fetched; of the matching rules the longest decides, of equals the permission."""
        path = _path_of(url)
        matching = [(len(pattern), allowed) for pattern, allowed in self.rules if _matches(pattern, path)]
        return max(matching, default=(0, True))[1]

    @staticmethod
    def everything_forbidden() -> Robots:
        """For a site whose robots.txt cannot be had at the moment (server errors)."""
        return Robots((("/", False),))

    @staticmethod
    def parse(text: str, agent: str) -> Robots:
        r"""The rules of the groups that name `agent` (its part before `/`), else those for `*`.

        >>> robots = Robots.parse("User-agent: *\nDisallow: /*.pdf$\nDisallow: /a\nAllow: /a/b", "someone/1.0")
        >>> [robots.allows("http://x.org" + path) for path in ("/x.pdf", "/x.pdf?v=1", "/a/c", "/a/b/c")]
        [False, True, False, True]
        """
        name = agent.split("/")[0].strip().lower()
        own: list[tuple[str, str]] = []
        general: list[tuple[str, str]] = []
        named = False
        agents: list[str] = []
        reading_agents = False
        for key, value in _lines(text):
            if key == "user-agent":
                agents = [*agents, value.lower()] if reading_agents else [value.lower()]
                named |= value.lower() == name
                reading_agents = True
                continue
            reading_agents = False
            if name in agents:
                own.append((key, value))
            if "*" in agents:
                general.append((key, value))
        return _build(own if named else general)


def _build(lines: list[tuple[str, str]]) -> Robots:
    rules = tuple((_normal_pattern(value), key == "allow") for key, value in lines if key != "crawl-delay" and value)
    delays = [float(value) for key, value in lines if key == "crawl-delay" and re.fullmatch(r"\d+(\.\d+)?", value)]
    return Robots(rules, max(delays, default=0.0))


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """The known `key: value` lines, without comments; a byte order mark and anything unknown is passed over."""
    for line in text.removeprefix("\ufeff").splitlines():
        key, colon, value = line.partition("#")[0].partition(":")
        if colon and key.strip().lower() in ("user-agent", "allow", "disallow", "crawl-delay"):
            yield key.strip().lower(), value.strip()


def _path_of(url: str) -> str:
    normal = normalise_url(url) or url
    return "/" + normal.split("://", 1)[-1].partition("/")[2]


def _normal_pattern(pattern: str) -> str:
    return pattern if pattern.isascii() else _path_of("http://site" + pattern)


def _matches(pattern: str, path: str) -> bool:
    anchored = pattern.endswith("$")
    parts = [re.escape(part) for part in pattern.removesuffix("$").split("*")]
    return re.match(".*".join(parts) + ("$" if anchored else ""), path) is not None
