"""Hints that class names and ids give about the content of an element, as bits."""

import re
from typing import Final

GROUPS: Final[dict[str, str]] = {
    "comment": "comment comments commentlist disqus reply replies respond discussion feedback livefyre",
    "nav": "nav navi navigation navbar menu menus breadcrumb breadcrumbs pagination pager toc skip topbar submenu tabs",
    "foot": "footer foot bottom copyright legal imprint impressum colophon disclaimer",
    "side": "sidebar side aside rail widget widgets complementary rightcol leftcol column2 marginal",
    "related": "related promo promos popular recommended recommendations recommendation trending teaser teasers more "
    "mostread latest outbrain taboola recirc readmore readnext next also similar upsell carousel slider cards",
    "share": "share sharing social socials addthis sharedaddy twitter facebook follow tools toolbar buttons print",
    "ad": "ad ads adv advert advertisement advertising banner sponsor sponsored dfp gpt adsbygoogle commercial",
    "meta": "meta byline author authors date time timestamp published dateline tags tag taglist category categories "
    "info infos label kicker credit credits source bio posted",
    "caption": "caption captions figcaption media image img photo picture gallery video player thumb thumbnail",
    "subscribe": "subscribe subscription newsletter signup signin login register registration cookie cookies consent "
    "gdpr paywall modal popup overlay donate alert notice form",
    "head": "head header masthead title headline heading search logo brand hero",
    "strong_body": "articlebody entrycontent storybody postcontent postbody articlecontent articletext bodytext "
    "storytext storycontent entrybody articlebodycontent mw parser postarticle richtext prose maincontent",
    "weak_body": "article body content entry main post story text page paragraph copy blog detail description",
    "hidden": "hidden hide invisible visuallyhidden sr screen offscreen noprint hid",
    "list": "list items item grid row feed results index archive listing",
    "quote": "quote pullquote blockquote excerpt summary lead intro lede standfirst abstract dek",
    "box": "box infobox module block panel section sidebox factbox note footnote footnotes reference references",
}
"""Words of class names and ids, by hint. The order is that of the bits."""
HINTS: Final = (*GROUPS, "article_body")

_BIT: Final = {name: 1 << index for index, name in enumerate(HINTS)}
_WORDS: Final = {word: _BIT[name] for name, words in reversed(GROUPS.items()) for word in words.split()}
_BODY: Final = re.compile(
    r"(?:article|entry|story|post|main|blog|news|page|text|body)-?(?:body|content|text|copy|main)"
)
_INSIDE: Final = re.compile("|".join(sorted((word for word in _WORDS if len(word) > 4), key=len, reverse=True)))
_SPLIT: Final = re.compile(r"[^A-Z\W_]+|[A-Z]+(?![^A-Z\W_])|[A-Z][^A-Z\W_]*")
_LONGEST: Final = 400  # characters of class and id that are read
_CACHED: Final = 100_000  # entries of each cache; a full one starts anew

_words_seen: dict[str, int] = {}
_strings_seen: dict[str, int] = {}


def find_hints(names: str) -> int:
    """Return the hint bits of an element's class and id, joined by a blank. The caches change the speed only."""
    bits = _strings_seen.get(names)
    if bits is None:
        bits = _read(names[:_LONGEST])
        if len(_strings_seen) >= _CACHED:
            _strings_seen.clear()
        _strings_seen[names] = bits
    return bits


def _read(names: str) -> int:
    bits = 0
    for token in names.split():
        known = _words_seen.get(token)
        if known is None:
            known = _read_token(token)
            if len(_words_seen) >= _CACHED:
                _words_seen.clear()
            _words_seen[token] = known
        bits |= known
    return bits


def _read_token(token: str) -> int:
    """Return the bits of one class name such as `articleBody` or `sidebar_left`."""
    words = [word.lower() for word in _SPLIT.findall(token)]
    bits = 0
    for word in words:
        known = _WORDS.get(word, 0)
        if not known and len(word) > 5:  # `sidebarleft`: known words inside a longer one
            for inner in _INSIDE.findall(word):
                known |= _WORDS[inner]
        bits |= known
    if _BODY.search("-".join(words)):
        bits |= _BIT["strong_body"]
    return bits
