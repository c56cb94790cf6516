"""Serve Python's own reference documentation on the loopback interface: a site to crawl that is always there.

`python tools/serve_pydoc.py --port 8475` serves the pages pydoc makes of the standard library's modules, and the
language reference's topics. A page is made when it is first asked for, and kept.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import html
import importlib
import importlib.util
import io
import os
import pkgutil
import pydoc
import sys
import threading
import warnings
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

__all__ = ["main", "module_names", "render", "serve"]

HOST: Final = "127.0.0.1"
DENIED: Final = frozenset(
    {
        "antigravity",  # opens a browser
        "this",  # prints
        "idlelib",  # these three open windows
        "tkinter",
        "turtle",
        "turtledemo",
        "test",  # hundreds of modules, some of which start servers and processes
        "distutils",  # deprecated, and replaced by installers at import
        "lib2to3",  # writes grammar caches
        "ensurepip",  # carries an installer
    }
)
DENIED_PARTS: Final = frozenset({"__main__", "test", "tests"})
_making = threading.Lock()


@functools.cache
def module_names() -> tuple[str, ...]:
    """Standard modules and submodules with a page, sorted; found by their files, nothing is imported."""
    names: list[str] = []
    for name in sorted(sys.stdlib_module_names - DENIED):
        spec = None if name.startswith("__") else importlib.util.find_spec(name)
        if spec is not None:
            names += [name, *_submodules(name, list(spec.submodule_search_locations or ()))]
    return tuple(names)


def _submodules(package: str, folders: list[str]) -> list[str]:
    names: list[str] = []
    for module in pkgutil.iter_modules(folders):
        if module.name not in DENIED_PARTS:
            full = f"{package}.{module.name}"
            names.append(full)
            if module.ispkg:
                names += _submodules(full, [str(Path(folder) / module.name) for folder in folders])
    return names


@functools.cache
def render(path: str) -> str | None:
    """The HTML page at a path (`/`, `/NAME.html`, `/topics/NAME.html`), or None where there is none."""
    if path in ("/", "/index.html"):
        return pydoc.html.page("Python reference", _index())
    name = path.removeprefix("/").removesuffix(".html")
    if name.startswith("topics/"):
        return _topic(name.removeprefix("topics/"))
    return _module(name) if path.endswith(".html") and name in module_names() else None


def _index() -> str:
    modules = "\n".join(f'<li><a href="/{name}.html">{name}</a></li>' for name in module_names())
    subjects = "\n".join(
        f'<li><a href="/topics/{html.escape(name)}.html">{html.escape(name)}</a></li>' for name in sorted(topics)
    )
    return f"<h1>Topics</h1>\n<ul>\n{subjects}\n</ul>\n<h1>Modules</h1>\n<ul>\n{modules}\n</ul>\n"


def _topic(name: str) -> str | None:
    text = topics.get(name)
    if text is None:
        return None
    paragraphs = "\n".join(f"<p>{html.escape(part)}</p>" for part in text.split("\n\n") if part.strip())
    return pydoc.html.page(name, f"<h1>{html.escape(name)}</h1>\n{paragraphs}")


def _module(name: str) -> str | None:
    """The page pydoc makes; None for a module that is for another system. What an import prints is swallowed."""
    silence = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(silence), contextlib.redirect_stderr(silence):
        warnings.simplefilter("ignore")
        try:
            module = importlib.import_module(name)
            # pydoc sets its indents and many spaces of sentences as &nbsp;: no text of a usual site looks so
            return pydoc.html.page(name, pydoc.html.document(module, name)).replace("&nbsp;", " ")
        except ImportError:
            return None


class _Handler(BaseHTTPRequestHandler):
    """GET of a page; pages are made one at a time, pydoc is not made for threads."""

    def do_GET(self) -> None:
        with _making:
            page = render(self.path)
        status = HTTPStatus.OK if page is not None else HTTPStatus.NOT_FOUND
        body = (page or "<p>There is no such page.</p>").encode("utf-8", errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the reader may leave in the middle
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Requests are the crawler's to report."""


@contextlib.contextmanager
def serve(port: int = 0) -> Iterator[str]:
    """Serve in the background while the block runs; yields the site's address. Port 0 takes a free one."""
    server = ThreadingHTTPServer((HOST, port), _Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="pydoc site", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def main() -> int:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="serve_pydoc.py", description=__doc__.partition("\n")[0])
    parser.add_argument("--port", type=int, default=8475, help="on the loopback interface (default %(default)s)")
    port = parser.parse_args().port
    os.environ.clear()  # the page of `os` shows it
    try:
        with serve(port) as url:
            print(f"serving {len(module_names()) + len(topics)} pages at {url}", flush=True)
            threading.Event().wait()
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        print(f"serve_pydoc: port {port}: {error.strerror}; choose another --port", file=sys.stderr)
        return 74
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
