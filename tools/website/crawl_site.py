"""Crawl a site politely into a WARC file: `clozeline crawl-site URL... --output FILE.warc.gz`.

It stays on the sites it starts from, obeys robots.txt, requests one page at a time and waits between requests. Repeat
the command to resume an interrupted crawl; a finished file is never changed.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from clozeline.command import stopping_at_signals
from clozeline.errors import ClozelineError, ConfigurationError, StorageError
from clozeline.tools.command import Arguments, positive
from clozeline.tools.website.crawl.archive import Archive, archive_settings
from clozeline.tools.website.crawl.links import start_url
from clozeline.tools.website.crawl.walk import Crawl, CrawlSettings, Tally

STOPPED: Final = 75


def crawl_to_file(settings: CrawlSettings, output: Path, report: Callable[[str], None]) -> Tally | None:
    """Run or resume a crawl into `output`; return None if the finished file exists already."""
    if not output.name.endswith(".warc.gz"):
        raise ConfigurationError(f"--output: expected a name ending in .warc.gz, got {output}")
    recorded = settings.identity()
    if output.exists():
        if archive_settings(output) != recorded:
            raise ConfigurationError(f"{output}: holds a crawl with other settings; choose another --output")
        return None
    with Archive(output, recorded) as archive:
        if len(archive):
            report(f"continuing: {len(archive)} addresses are in {archive.partial}")
        if archive.cut:
            report(f"cut {archive.cut} bytes of an unfinished exchange")
        tally = Crawl(settings, archive, report=report).run()
        if not tally.pages:
            raise StorageError(f"no page could be kept: {tally.line()}; remove {archive.partial} to start again")
        archive.publish()
    return tally


def _parse(arguments: Sequence[str] | None) -> tuple[CrawlSettings, Path]:
    defaults = CrawlSettings(start=())
    parser = Arguments(__doc__)
    parser.add_argument("start", nargs="+", metavar="URL", help="http or https addresses to start from")
    parser.add_argument("--output", type=Path, required=True, metavar="FILE.warc.gz", help="file to write")
    parser.add_argument("--pages", type=positive, default=defaults.pages, help="pages to keep (default %(default)s)")
    parser.add_argument("--requests", type=positive, help="requests in all (default five times the pages)")
    parser.add_argument("--delay", type=float, default=defaults.delay, help="seconds between requests (%(default)s)")
    parser.add_argument("--timeout", type=float, default=defaults.timeout, help="seconds for one page (%(default)s)")
    parser.add_argument("--page-bytes", type=positive, default=defaults.page_bytes, help="size limit (%(default)s)")
    parser.add_argument("--agent", default=defaults.agent, help="User-Agent; add an address to reach you (%(default)s)")
    parser.add_argument("--types", nargs="+", default=defaults.types, help="media types to keep (%(default)s)")
    options = parser.parse_args(arguments)
    if options.timeout <= 0:
        parser.error(f"--timeout: expected more than 0 seconds, got {options.timeout}")
    if options.delay < 0:
        parser.error(f"--delay: expected 0 or more seconds, got {options.delay}")
    settings = CrawlSettings(
        start=tuple(dict.fromkeys(start_url(url) for url in options.start)), pages=options.pages,
        requests=options.requests or 5 * options.pages, delay=options.delay, timeout=options.timeout,
        page_bytes=options.page_bytes, agent=options.agent, types=tuple(options.types),
    )  # fmt: skip
    return settings, options.output


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code (0 done, 64 wrong usage, 74 site or disk, 75 stopped, can be resumed)."""
    try:
        settings, output = _parse(arguments)
        with stopping_at_signals():
            tally = crawl_to_file(settings, output, report=lambda line: print(line, file=sys.stderr, flush=True))
    except ClozelineError as error:
        print(f"crawl_site: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("crawl_site: stopped; the same command resumes", file=sys.stderr)
        return STOPPED
    print(f"{output}: complete already" if tally is None else f"{output}: {tally.line()}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
