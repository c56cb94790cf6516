"""Clean Reddit's dumps: reject deleted comments and posts, and decode HTML entities."""

import html
import re
from typing import Final

from clozeline.pipeline.clean.filters import KEEP, Document, Filter, TextStatistics, Verdict
from clozeline.pipeline.text.normal_form import normalize

_DELETED: Final = re.compile(r"\[ ?(?:deleted|removed)(?: by [\w ]{1,20})? ?\]", re.IGNORECASE)
# only with a semicolon: `?a=1&copy=2` is a URL
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")

_INVISIBLE: Final = "\u200b\u200c\u200d \n"
"""Characters of posts without a text."""


class Reddit(Filter):
    r"""Rejects `[deleted]` and `[removed]`, and decodes entities once: `&gt;` is `>`.

    The text is in the key `body` of comments and `selftext` of posts.

    "&gt; Is it?\n\nYes &amp; no." -> "> Is it?\n\nYes & no."
    """

    VERSION = 1
    reasons = ("reddit_deleted",)

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the text with decoded entities; a deleted one is rejected."""
        text = statistics.text
        if _DELETED.fullmatch(text.strip()):
            return Verdict("reddit_deleted", text.strip())
        decoded = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)
        if decoded == text:
            return KEEP
        decoded = normalize(decoded)
        if not decoded.strip(_INVISIBLE):
            return Verdict("reddit_deleted", "nothing but entities of blanks")
        return Verdict(text=decoded, removed={"entities": len(text) - len(decoded)})
