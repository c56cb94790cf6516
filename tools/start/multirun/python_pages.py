"""Write Python's reference as a WARC.

    python -m clozeline.tools.start.multirun.python_pages FILE.warc.gz

The pages are pydoc's pages on the modules of the standard library, and the topics of the language
reference. All processes of one Python with PYTHONHASHSEED=0 write the same bytes.
"""

import contextlib
import html
import importlib
import importlib.util
import io
import os
import pkgutil
import pydoc
import re
import sys
import uuid
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from pydoc_data.topics import topics
from types import ModuleType
from typing import Annotated, Final

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from clozeline.command_line import Positional
from clozeline.configuration.config import config_class
from clozeline.files import publish
from clozeline.tools.command import OutputPath, run_tool

_LEFT_OUT: Final = frozenset(
    {
        "antigravity",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "site",
        "sys",
        "test",
        "this",
        "tkinter",
        "turtle",
        "turtledemo",
    }
)
"""Modules that at import open windows, print, start tests or write caches; `sys` and `site` show
folders."""
_LEFT_OUT_PARTS: Final = frozenset({"__main__", "test", "tests"})
_VOLATILE: Final = re.compile(r" at 0x[0-9a-fA-F]+|, handle [0-9a-f]+|<a href=\"file:.*?</a>")
"""Parts of a page that differ between processes, or reveal where Python is installed."""
_SITE: Final = "http://pydoc.example/"


@config_class
class PagesOptions:
    """The file to write."""

    output: Annotated[OutputPath, Positional(0, "FILE")]
    """new WARC"""


def module_names() -> Iterator[str]:
    """Yield the standard modules and submodules with a page.

    They are found by their files, without imports.
    """
    for name in sorted(sys.stdlib_module_names - _LEFT_OUT):
        spec = None if name.startswith("__") else importlib.util.find_spec(name)
        if spec is not None:
            yield from (name, *_submodules(name, list(spec.submodule_search_locations or ())))


def _submodules(package: str, folders: list[str]) -> Iterator[str]:
    for module in pkgutil.iter_modules(folders):
        if module.name not in _LEFT_OUT_PARTS:
            yield (full := f"{package}.{module.name}")
            if module.ispkg:
                yield from _submodules(
                    full, [str(Path(folder) / module.name) for folder in folders]
                )


def render_pages() -> Iterator[tuple[str, str]]:
    """Yield the address and the HTML of each page."""
    for name in sorted(topics):
        parts = "\n".join(
            f"<p>{html.escape(part)}</p>" for part in topics[name].split("\n\n") if part.strip()
        )
        page = pydoc.html.page(name, f"<h1>{html.escape(name)}</h1>\n{parts}")
        yield f"{_SITE}topics/{name}.html", _VOLATILE.sub("", page)

    modules: dict[str, ModuleType] = {}

    # all first: what a page shows of a module depends on which others are imported
    for name in module_names():
        with contextlib.suppress(ImportError):  # a module of another system
            modules[name] = importlib.import_module(name)

    for name, module in modules.items():
        page = pydoc.html.page(name, pydoc.html.document(module, name))
        # pydoc writes indents and many spaces as &nbsp;, which ordinary sites do not
        yield f"{_SITE}{name}.html", _VOLATILE.sub("", page.replace("&nbsp;", " "))


def write_warc(path: Path, pages: Iterable[tuple[str, str]]) -> None:
    """Write pages, each with its address, as responses of a WARC.

    Its bytes depend on nothing else.
    """
    with publish(path) as temporary, temporary.open("wb") as file:
        writer = WARCWriter(file, gzip=True)

        for url, page in pages:
            body = page.encode("utf-8", errors="replace")
            fields = [
                ("Content-Type", "text/html; charset=utf-8"),
                ("Content-Length", str(len(body))),
            ]
            identity = f"<{uuid.uuid5(uuid.NAMESPACE_URL, url).urn}>"
            record = writer.create_warc_record(
                url,
                "response",
                io.BytesIO(body),
                len(body),
                warc_headers_dict={"WARC-Record-ID": identity, "WARC-Date": "2000-01-01T00:00:00Z"},
                http_headers=StatusAndHeaders("200 OK", fields, protocol="HTTP/1.1"),
            )

            writer.write_record(record)


def _write(options: PagesOptions) -> None:
    write_warc(options.output, render_pages())


def main(arguments: Sequence[str]) -> int:
    return run_tool(__doc__, arguments, PagesOptions, _write)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of modules that are deprecated
    os.environ.clear()  # the page of `os` shows it
    raise SystemExit(main(sys.argv[1:]))
