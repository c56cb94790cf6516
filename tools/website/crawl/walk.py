"""Crawl a site breadth first, one request at a time, counting the outcome of every URL."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any, Final

from clozeline.errors import StorageError
from clozeline.tools.website.crawl.archive import Archive
from clozeline.tools.website.crawl.fetch import Exchange, FetchFailedError, fetch
from clozeline.tools.website.crawl.links import find_links, normalize_url, site_of
from clozeline.tools.website.crawl.robots import Robots

REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
REDIRECT_LIMIT: Final = 10
ROBOTS_BYTES: Final = 512 * 1024
FAILURE_LIMIT: Final = 10
"""Consecutive requests without an answer that end the crawl: the server is gone, and more requests are impolite."""
LONGEST_WAIT: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class CrawlSettings:
    """Settings of a crawl. Sizes in bytes, times in seconds; `requests` limits a site that is mostly errors."""

    start: tuple[str, ...]
    pages: int = 1000
    requests: int = 5000
    delay: float = 1.0
    timeout: float = 20.0
    page_bytes: int = 10_000_000
    agent: str = "clozeline-crawler/0.1"
    types: tuple[str, ...] = ("text/html", "application/xhtml+xml", "text/plain")

    def identity(self) -> dict[str, Any]:
        """Return the settings that decide which pages are in the file; other values mean another crawl."""
        recorded_settings = {key: value for key, value in asdict(self).items() if key not in ("delay", "timeout")}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in recorded_settings.items()}


@dataclass
class Tally:
    """Outcome counts of all URLs: `pages` are stored, the rest is counted by reason."""

    pages: int = 0
    bytes: int = 0
    fetched: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """Return the counts as one line of text."""
        rest = ", ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        return f"{self.pages} pages, {self.bytes / 1e6:.2f} MB" + (f"; {rest}" if rest else "")


class Crawl:
    """A breadth-first crawl from the start URLs; what the archive holds is read from there, not from the network.

    A resumed crawl thus visits the same URLs in the same order and needs no other state.
    """

    def __init__(
        self, settings: CrawlSettings, archive: Archive, *, fetch: Callable[..., Exchange] = fetch,
        sleep: Callable[[float], None] = time.sleep, report: Callable[[str], None] = lambda line: None,
    ) -> None:  # fmt: skip
        self.settings, self.archive, self.tally = settings, archive, Tally()
        self._fetch, self._sleep, self._report = fetch, sleep, report
        self._robots: dict[str, Robots] = {}
        self._queue: deque[tuple[str, int]] = deque((url, 0) for url in settings.start)
        self._seen = set(settings.start)
        self._sites = {site_of(url) for url in settings.start}
        self._delay = settings.delay
        self._requests_made = 0
        self._failures: list[tuple[str, str]] = []

    def run(self) -> Tally:
        """Crawl until the page limit, the request limit or the end of the links."""
        while self._queue and self.tally.pages < self.settings.pages:
            if self._requests_made >= self.settings.requests:
                self.tally.reasons["not asked: request limit"] += len(self._queue)
                break
            url, redirects = self._queue.popleft()
            if (site := site_of(url)) not in self._robots:
                self._robots[site] = robots = self._read_robots(f"{site}/robots.txt")
                self._delay = max(self._delay, robots.delay)
            if not self._robots[site].allows(url):
                self.tally.reasons["forbidden by robots.txt"] += 1
                continue
            self._requests_made += 1
            outcome = self._fetch_or_read(url, self.settings.page_bytes)
            if isinstance(outcome, str):
                self.tally.reasons[outcome] += 1
            else:
                self._process_answer(outcome, redirects)
        self._record_failures()
        return self.tally

    def _process_answer(self, exchange: Exchange, redirects: int) -> None:
        if exchange.status in REDIRECTS:
            self.tally.reasons["redirect"] += 1
            target = normalize_url(exchange.header("Location"), exchange.url)
            if target is not None and redirects < REDIRECT_LIMIT:
                self._enqueue(target, redirects + 1)
            else:
                self.tally.reasons["redirect without end" if target else "redirect to nowhere"] += 1
        elif exchange.status != HTTPStatus.OK:
            self.tally.reasons[f"status {exchange.status}"] += 1
        else:
            self.tally.pages += 1
            self.tally.bytes += len(exchange.body)
            if exchange.truncated:
                self.tally.reasons["cut at the size limit"] += 1
            if exchange.content_type != "text/plain":
                for link in find_links(exchange.text, exchange.url):
                    self._enqueue(link, 0)
            if self.tally.pages % 100 == 0:
                self._report(self.tally.line())

    def _enqueue(self, url: str, redirects: int) -> None:
        if url in self._seen:
            return
        self._seen.add(url)
        if site_of(url) in self._sites:
            self._queue.append((url, redirects))
        else:
            self.tally.reasons["other site"] += 1

    def _read_robots(self, url: str) -> Robots:
        """Return a site's robots.txt; server errors and timeouts forbid everything, other errors nothing."""
        nothing_asked = Robots.parse("", self.settings.agent)
        for _ in range(5):
            outcome = self._fetch_or_read(url, ROBOTS_BYTES)
            if isinstance(outcome, str):
                forbidden = outcome in ("timeout", "connection", "protocol")
                return Robots.forbid_everything() if forbidden else nothing_asked
            target = normalize_url(outcome.header("Location"), url)
            if outcome.status in REDIRECTS and target is not None:
                url = target
                continue
            if outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
                return Robots.forbid_everything()
            text = outcome.text if outcome.status == HTTPStatus.OK else ""
            return Robots.parse(text, self.settings.agent)
        return nothing_asked

    def _fetch_or_read(self, url: str, limit: int) -> Exchange | str:
        """Return the answer, or the reason for none: from the archive, else from the network into the archive."""
        if url in self.archive:
            return self.archive.read(url)
        if self.tally.fetched:
            self._sleep(self._delay)
        self.tally.fetched += 1
        settings = self.settings
        try:
            exchange = self._fetch(
                url, agent=settings.agent, timeout=settings.timeout, page_bytes=limit, types=settings.types
            )
        except FetchFailedError as error:
            self._report(str(error))
            self._failures.append((url, error.reason))
            if self.tally.fetched == 1 or len(self._failures) >= FAILURE_LIMIT:
                counted = f"no answer from the site ({len(self._failures)} in a row)"
                raise StorageError(f"{counted}: {error}. The same command resumes.") from error
            return error.reason
        self._record_failures()
        if exchange.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
            seconds = exchange.header("Retry-After")
            self._delay = max(self._delay, min(float(seconds) if seconds.isdecimal() else 1.0, LONGEST_WAIT))
        if exchange.status == HTTPStatus.OK and exchange.content_type not in settings.types:
            reason = f"type {exchange.content_type or 'unknown'}"
            self.archive.append_outcome(url, reason)
            return reason
        self.archive.append(exchange)
        return exchange

    def _record_failures(self) -> None:
        """Make failures final once the site answers again; until then a resumed crawl repeats the requests."""
        for url, reason in self._failures:
            self.archive.append_outcome(url, reason)
        self._failures.clear()
