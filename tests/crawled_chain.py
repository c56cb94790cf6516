"""A crawl of a small English site and the shards made of it, for tests that look at the whole from outside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.website.crawl.walk import CrawlSettings
from clozeline.tools.website.crawl_site import crawl_to_file
from tests.loopback_site import HTML, Site
from tests.pipeline.miniature import text

ROOT = Path(__file__).parents[1]
PAGES = 60


@dataclass(frozen=True)
class Chain:
    """A folder with a crawl and what the demo's recipe made of it."""

    folder: Path

    @property
    def warc(self) -> Path:
        return self.folder / "crawl" / "site.warc.gz"

    @property
    def output(self) -> Path:
        return self.folder / "data" / "site"


def english_site() -> Site:
    """Pages of English sentences with a menu; two of them are copies."""
    pages = {}
    for number in range(PAGES):
        paragraphs = "".join(f"<p>{part}</p>" for part in text(number % (PAGES - 2), 24).split("\n\n"))
        menu = f'<nav><a href="/">home</a> <a href="/page{(number + 1) % PAGES}">next</a></nav>'
        body = f"<html><head><title>Page {number}</title></head><body>{menu}<main>{paragraphs}</main></body></html>"
        pages[f"/page{number}"] = (200, HTML, body.encode())
    links = "".join(f'<li><a href="/page{number}">page {number}</a></li>' for number in range(PAGES))
    pages["/"] = (200, HTML, f"<html><body><ul>{links}</ul></body></html>".encode())
    return Site(pages)


def make_chain(folder: Path) -> Chain:
    """Crawl over the loopback interface, then all stages of the demo's recipe in one task."""
    chain = Chain(folder)
    site = english_site()
    with site.running():
        settings = CrawlSettings(start=(site.url,), delay=0.0)
        tally = crawl_to_file(settings, chain.warc, report=lambda line: None)
    assert tally is not None
    assert tally.pages == PAGES + 1
    recipe = ROOT / "configs" / "recipes" / "demo" / "pipeline.yaml"
    overrides = [f"input={chain.warc}", f"output={chain.output}", "train_tokenizer.size=600", "heldout.fraction=0.1"]
    assert run_pipeline(["--config", str(recipe), *overrides]) == 0
    return chain
