"""Pages of a small English site in a WARC and the shards made of it, for tests that look at the
whole from outside."""

from dataclasses import dataclass
from pathlib import Path

from clozeline.pipeline.execution.recipe_command import main as run_pipeline
from clozeline.tools.start.multirun.python_pages import write_warc
from tests.pipeline.miniature import text

ROOT = Path(__file__).parents[1]
PAGES = 60


@dataclass(frozen=True)
class Chain:
    """A folder with a WARC and what the demo's recipe made of it."""

    folder: Path

    @property
    def warc(self):
        return self.folder / "crawl" / "site.warc.gz"

    @property
    def output(self):
        return self.folder / "data" / "site"


def english_pages():
    """Pages of English sentences with a menu, and their list; two of them are copies."""
    links = "".join(
        f'<li><a href="/page{number}">page {number}</a></li>' for number in range(PAGES)
    )
    yield "http://site.example/", f"<html><body><ul>{links}</ul></body></html>"

    for number in range(PAGES):
        paragraphs = "".join(
            f"<p>{part}</p>" for part in text(number % (PAGES - 2), 24).split("\n\n")
        )
        menu = f'<nav><a href="/">home</a> <a href="/page{(number + 1) % PAGES}">next</a></nav>'
        page = (
            "<html><head><title>Page "
            f"{number}</title></head><body>{menu}<main>{paragraphs}</main></body></html>"
        )
        yield f"http://site.example/page{number}", page


def make_chain(folder):
    """Write the pages, then run all stages of the demo's recipe in one task."""
    chain = Chain(folder)
    write_warc(chain.warc, english_pages())
    recipe = ROOT / "configs" / "recipes" / "demo" / "pipeline.yaml"
    overrides = [
        f"input={chain.warc}",
        f"output={chain.output}",
        "train_tokenizer.size=600",
        "heldout.fraction=0.1",
    ]

    assert run_pipeline(["--config", str(recipe), *overrides]) == 0

    return chain
