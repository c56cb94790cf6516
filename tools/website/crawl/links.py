"""Normalize URLs, and find the links of an HTML page."""

import urllib.parse
from html.parser import HTMLParser
from typing import Final

from clozeline.errors import ConfigurationError

_PORTS: Final = {"http": 80, "https": 443}
_UNQUOTED: Final = "!#$%&'()*+,/:;=?@[]~"
"""Characters that stay as they are in a path or query; includes `%`, so that nothing is quoted twice."""


def normalize_url(url: str, base: str = "") -> str | None:
    """Return the canonical form of an http(s) URL, or None for anything else (mailto, javascript, broken URLs).

    Relative URLs are resolved against `base`. Fragment, default port, user name and spaces are removed; scheme and host
    become lower case; other scripts are percent-encoded.
    """
    try:
        parts = urllib.parse.urlsplit(urllib.parse.urljoin(base, url.strip()))
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
        if scheme not in _PORTS or not host:
            return None
        host = host if host.isascii() else host.encode("idna").decode()
    except ValueError:
        return None
    if ":" in host:
        host = f"[{host}]"
    if port is not None and port != _PORTS[scheme]:
        host = f"{host}:{port}"
    # resolve dots, then quote other scripts
    path = parts.path or "/"
    if "/." in path:  # urljoin does not resolve dots in absolute URLs
        path = urllib.parse.urlsplit(urllib.parse.urljoin("http://site/", "./" + path.lstrip("/"))).path
    path = urllib.parse.quote(path, safe=_UNQUOTED)
    query = urllib.parse.quote(parts.query, safe=_UNQUOTED)
    return urllib.parse.urlunsplit((scheme, host, path, query, ""))


def start_url(url: str) -> str:
    """Return the normalized form of a URL that a user typed, or raise ConfigurationError."""
    normal = normalize_url(url)
    if normal is None:
        raise ConfigurationError(f"expected an http or https address to start from, got {url!r}: try http://HOST/PATH")
    return normal


def site_of(url: str) -> str:
    """Return scheme, host and port of a normalized URL: a crawl stays on the sites it starts from."""
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class _LinkParser(HTMLParser):
    """Collects `<a href>` and `<area href>`, respecting `<base href>` and `nofollow`."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.base = ""
        self.hrefs: list[str] = []
        self.nofollow = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Process an opening tag; also called for broken pages."""
        values = {name: value or "" for name, value in attrs}
        if tag == "base" and not self.base:
            self.base = values.get("href", "")
        elif tag == "meta" and values.get("name", "").lower() == "robots":
            self.nofollow |= "nofollow" in values.get("content", "").lower()
        elif tag in ("a", "area") and "href" in values and "nofollow" not in values.get("rel", "").lower():
            self.hrefs.append(values["href"])


def find_links(html: str, url: str) -> list[str]:
    """Return the normalized URLs that a page links to, in page order, without repetitions.

    >>> find_links('<a href="b#part">b</a> <a href="/c?d=1">c</a> <a href="b">again</a>', "http://x.org/a/")
    ['http://x.org/a/b', 'http://x.org/c?d=1']
    """
    parser = _LinkParser()
    parser.feed(html)
    if parser.nofollow:
        return []
    base = normalize_url(parser.base, url) or url
    links = (normalize_url(href, base) for href in parser.hrefs)
    return list(dict.fromkeys(link for link in links if link is not None))
