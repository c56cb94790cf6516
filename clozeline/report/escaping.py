"""Escape text for HTML and SVG; the drawers of this package insert no text without it."""

import html

from clozeline.errors import show_controls


def escape(text: str) -> str:
    r"""Return text as HTML; control characters become visible escapes like `\x1b`."""
    return html.escape(show_controls(text))
