"""Read dumps of MediaWiki, compressed or not: each page of the main namespace is a document.

mwparserfromhell parses the wikitext; its nodes distinguish lists, line breaks, code and formulas.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from xml.parsers import expat

from clozeline.errors import ConfigurationError
from clozeline.pipeline.ingest.documents.document import RECORD_ID
from clozeline.pipeline.ingest.formats.decompression import (
    DAMAGE_REASONS,
    Damage,
    InputFile,
    decompress_file,
)
from clozeline.pipeline.ingest.formats.http_message import reason_name
from clozeline.pipeline.ingest.formats.wiki_links import (
    DEFAULT_HIDDEN_PREFIXES,
    HIDDEN_NAMESPACES,
    LANGUAGE_PREFIXES,
    resolve_link_text,
)
from clozeline.pipeline.ingest.formats.wiki_templates import TemplateCall, find_template
from clozeline.pipeline.ingest.readers import Item, RawRecord, Reader, SkippedRecord
from clozeline.pipeline.text.superscripts import is_exponent

_PIECE_BYTES: Final = 1 << 20  # bytes of XML at a time
_REDIRECT: Final = re.compile(r"\s*#redirect\s*:?\s*\[\[", re.IGNORECASE)
_LONGEST_PAGE: Final = 1 << 23
"""Maximum characters of a page, four times MediaWiki's default; the parser reads about 200,000 per
second."""
_READ_ELEMENTS: Final = ("namespace", "dbname", "title", "ns", "id", "text", "model", "format")
_WIKITEXT_MODELS: Final = frozenset({"wikitext", "proofread-page"})
"""Content models of wikitext."""
_WIKITEXT_FORMAT: Final = "text/x-wiki"
_HIDDEN_TAGS: Final = frozenset(
    {
        "ref",
        "references",
        "gallery",
        "table",
        "timeline",
        "score",
        "imagemap",
        "templatestyles",
        "categorytree",
        "graph",
        "inputbox",
        "section",
        "templatedata",
    }
)
_FORMULA_TAGS: Final = frozenset({"math", "chem", "ce"})
_CODE_TAGS: Final = frozenset({"pre", "syntaxhighlight", "source", "nowiki", "code"})
_BLOCK_TAGS: Final = frozenset(
    {"br", "hr", "p", "div", "center", "blockquote", "ul", "ol", "dl", "li", "dt", "dd"}
)
_LIST_MARKS: Final = frozenset("*#:;")

_SWITCH: Final = re.compile(
    r"__(?:NO|FORCE)?TOC__|__(?:NO)?INDEX__"
    r"|__NO(?:EDITSECTION|GALLERY|CC|TC|CONTENTCONVERT|TITLECONVERT|GLOBAL)__"
    r"|__(?:NO)?NEWSECTIONLINK__|__(?:HIDDENCAT|EXPECTUNUSEDCATEGORY|STATICREDIRECT|DISAMBIG)__"
    r"|^__[^\W\d]+?__$",  # of other languages, alone in its line
    re.MULTILINE,
)
_VARIANT: Final = re.compile(r"-\{([^{}]*)\}-")
_HIDDEN_VARIANT: Final = frozenset("HTDR-")
_LANGUAGE: Final = re.compile(r"\s*[a-z]{2,3}(?:-[a-z]+)*\s*:")
_BLANK_LINES: Final = re.compile(r"\n{3,}")
_MARK: Final = re.compile(
    r"(?P<open>\{\{|\{\||\[\[|\[|<!--)|<(?P<tag>[a-z][\w-]*)(?:[^<>]*(?P<last>[^<>])?(?P<end>>))?"
    r"|</(?P<end_tag>[a-z][\w-]*)|(?P<close>\}\}|\|\}(?!\})|\]\]|\]|-->)",
    re.IGNORECASE,
)
_HOLE: Final = "\0"
"""Stands for a template that shows nothing; no page has this character."""
_HOLES: Final = re.compile(
    rf"(?P<open>[(\[])[ ]?(?:{_HOLE}[ ]?[;,:]?[ ]?)+|(?:[ ]?[;,:])?(?:[ ]?{_HOLE})+[ "
    r"]?(?P<close>[)\]])"
    rf"|[ ]?(?:{_HOLE})+(?P<mark>[.,;:!?](?=\s|$))|{_HOLE}"
)
_EMPTY: Final = re.compile(rf"[ ]?\([ ]?(?:{_HOLE}[ ;,]*)+\)")
_ADJACENT_HOLES: Final = re.compile(rf"{_HOLE}(?:{_HOLE})+")
_SPACED_HOLES: Final = re.compile(rf"[ ](?:{_HOLE}+[ ])+")
_OPENER: Final = {"}}": "{{", "|}": "{|", "]]": "[[", "]": "[", "-->": "<!--"}
_MOST_PARAMETERS: Final = 20
"""Maximum parameters of a template that are read; inline templates have fewer."""
_MOST_UNCLOSED: Final = 20
"""Maximum unclosed openers: for each one the parser reads the remaining page again."""


class MediawikiReader(Reader):
    """Reads the last revision of each article.

    Redirects and pages of other namespaces are counted as ignored.

    Headings, paragraphs, lists, code and formulas (as TeX) stay, and templates inside sentences.
    Other templates, tables, references, files, categories and links to other languages are removed.
    Pages of another content model, such as JSON and CSS, are counted as ignored. A truncated dump
    ends with the last complete page. Name it in the recipe: `reader: mediawiki`. It needs
    `clozeline[mediawiki]`.
    """

    VERSION = 4
    reasons = (*DAMAGE_REASONS, "bad_xml", "too_large")

    def read(self, path: InputFile, start: int, end: int) -> Iterator[Item]:
        pages = _PageParser(min(self._limits.record_bytes, _LONGEST_PAGE))
        reason = ""
        lost = 0

        for piece in decompress_file(path, self._limits, resume=False):
            if isinstance(piece, Damage):
                reason = piece.reason
                lost = piece.lost_bytes
                break
            for first in range(0, len(piece), _PIECE_BYTES):
                yield from pages.feed(piece[first : first + _PIECE_BYTES])

        if not reason and not pages.finish():
            reason = "truncated"
        if reason or pages.xml_error:
            yield SkippedRecord(
                "malformed",
                "bad_xml" if pages.xml_error else reason,
                pages.end,
                detail=pages.xml_error,
                lost_bytes=lost,
            )


class _PageParser:
    """An incremental parser: it takes pieces of XML and returns the complete pages."""

    def __init__(self, longest: int) -> None:
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._parser.CharacterDataHandler = self._add
        self._parser.EntityDeclHandler = self._refuse
        self._parser.buffer_text = True

        self._longest = longest
        self._items: list[Item] = []
        self._text: list[str] | None = None
        self._fields: dict[str, str] = {}
        self._size = self._start = self.end = 0
        self._hidden_prefixes = set(DEFAULT_HIDDEN_PREFIXES | LANGUAGE_PREFIXES)
        self._namespaces: dict[str, str] = {}  # keys by names in lower case
        self._language = "en"
        self._is_further_slot = False
        self._key = ""
        self.xml_error = ""

    def feed(self, piece: bytes) -> list[Item]:
        """Parse a piece and return the pages that end in it.

        Nothing is parsed after an error in the XML.
        """
        self._items = []
        if not self.xml_error:
            try:
                self._parser.Parse(piece, False)
            except (expat.ExpatError, ValueError) as error:
                self.xml_error = str(error)
        return self._items

    def finish(self) -> bool:
        """Return whether the XML is complete."""
        try:
            self._parser.Parse(b"", True)
        except (expat.ExpatError, ValueError):
            return False
        return not self.xml_error

    def _refuse(self, *_: object) -> None:
        raise ValueError("declares an XML entity, which MediaWiki dumps never do")

    def _open(self, name: str, attributes: dict[str, str]) -> None:
        self._text = None

        if name == "mediawiki":
            self._language = attributes.get("xml:lang", "en")
            self._hidden_prefixes.discard(self._language)
        elif name == "page":
            self._start = self._parser.CurrentByteIndex
            self._fields = {}
        elif name == "content":
            self._is_further_slot = True  # extra content of a revision, next to its main text
        elif name == "revision":
            self._fields.setdefault("id", "")  # of a page without id, its revision's is another
        elif name == "redirect":
            self._fields["redirect"] = "yes"
        elif (
            name in _READ_ELEMENTS
            and not self._is_further_slot
            and not (name == "id" and name in self._fields)
        ):
            # the text of the last revision overwrites the others
            self._key = attributes.get("key", "")
            self._text = []
            self._size = 0

    def _add(self, text: str) -> None:
        if self._text is not None:
            self._size += len(text)
            if self._size <= self._longest:
                self._text.append(text)

    def _close(self, name: str) -> None:
        if name == "page":
            self._end_page(self._parser.CurrentByteIndex + len("</page>"))
        elif name == "content":
            self._is_further_slot = False
        elif self._text is not None:
            value = "".join(self._text)
            if name == "namespace":
                self._namespaces[value.casefold()] = self._key
                if self._key in HIDDEN_NAMESPACES:
                    self._hidden_prefixes.add(value.casefold())

            if name == "dbname" and not value.startswith(self._language):
                # such as `en` in the wiki of simple English
                self._hidden_prefixes.add(self._language)
            if name == "text" and self._size > self._longest:
                self._fields["too_large"] = "yes"
            self._fields[name] = value

        self._text = None

    def _end_page(self, end: int) -> None:
        length = end - self._start
        page = self._fields
        self.end = end

        # older dumps name the namespace in the title alone, and no content model
        prefix, colon, _ = page.get("title", "").partition(":")
        namespace = page.get("ns") or (
            self._namespaces.get(prefix.casefold(), "0") if colon else "0"
        )
        model = page.get("model")
        content = page.get("format") or _WIKITEXT_FORMAT
        is_wikitext = content == _WIKITEXT_FORMAT if model is None else model in _WIKITEXT_MODELS

        if "redirect" in page or _REDIRECT.match(page.get("text", "")):
            self._items.append(SkippedRecord("ignored", "redirect"))
        elif namespace != "0":
            self._items.append(SkippedRecord("ignored", f"namespace_{namespace}"))
        elif not is_wikitext:
            self._items.append(SkippedRecord("ignored", f"model_{reason_name(model or content)}"))
        elif "too_large" in page:
            self._items.append(SkippedRecord("malformed", "too_large", self._start))
        else:
            text = strip_markup(
                page.get("text", ""), frozenset(self._hidden_prefixes), self._language
            )
            extra = {"title": page.get("title", "")}
            if page.get("id"):
                extra[RECORD_ID] = page["id"]
            self._items.append(RawRecord(self._start, "mediawiki", length, text, extra=extra))


def strip_markup(
    markup: str,
    hidden_prefixes: frozenset[str] = DEFAULT_HIDDEN_PREFIXES | LANGUAGE_PREFIXES - {"en"},
    language: str = "en",
) -> str:
    """Return the text of wikitext: headings, paragraphs, lists and inline templates.

    Tables and references are removed, and formulas are TeX. Of a text in several scripts the first
    variant stays. `hidden_prefixes` are the lower-case prefixes of links without text, and
    `language` is the language of the wiki.
    """
    try:
        import mwparserfromhell
    except ImportError as error:
        raise ConfigurationError(
            f"reader mediawiki: needs a package ({error}): pip install 'clozeline[mediawiki]'"
        ) from error

    renderer = _WikitextRenderer(hidden_prefixes, language)
    pieces = renderer.render(
        mwparserfromhell.parse(_escape_unclosed(markup.replace(_HOLE, ""))), in_code=False
    )

    # switches and variants are markup outside of code alone
    parts = []
    for in_code, run in groupby(pieces, key=lambda piece: piece[1]):
        text = "".join(piece for piece, _ in run)
        parts.append(text if in_code else _VARIANT.sub(_choose_variant, _SWITCH.sub("", text)))

    text = _SPACED_HOLES.sub(" ", _EMPTY.sub("", _ADJACENT_HOLES.sub(_HOLE, "".join(parts))))
    # the text around an empty template: of `(; 1850)` the parenthesis, of ` .` the mark
    text = _HOLES.sub(lambda match: next(filter(None, match.groups()), "").strip(), text)
    return _BLANK_LINES.sub("\n\n", "\n".join(line.strip() for line in text.split("\n"))).strip()


def _escape_unclosed(markup: str) -> str:
    """Replace unclosed openers by entities, which render equally, if a page has too many."""
    from mwparserfromhell.definitions import PARSER_BLACKLIST, is_single

    unclosed: dict[str, list[int]] = {}
    endless = set[str]()
    position = 0
    while mark := _MARK.search(markup, position):
        position = mark.end()

        if ends := mark["end_tag"] or mark["close"]:
            if stack := unclosed.get(_OPENER.get(ends, ends.lower())):
                stack.pop()
            continue

        opener = mark["open"] or (mark["tag"].lower() if mark["end"] else "<")
        if mark["last"] == "/" or is_single(opener):
            continue
        if (
            opener == "<!--" or opener in PARSER_BLACKLIST
        ) and opener not in endless:  # no markup inside of these
            end = re.compile(
                "-->" if opener == "<!--" else rf"</{opener}\s*>", re.IGNORECASE
            ).search(markup, position)
            if end is not None:
                position = end.end()
                continue
            endless.add(opener)

        unclosed.setdefault(opener, []).append(mark.start())

    starts = sorted(start for starts in unclosed.values() for start in starts)
    if len(starts) <= _MOST_UNCLOSED:
        return markup
    bounds = zip(starts, [*starts[1:], len(markup)], strict=True)
    return markup[: starts[0]] + "".join(
        f"&#{ord(markup[a])};{markup[a + 1 : b]}" for a, b in bounds
    )


@dataclass
class _WikitextRenderer:
    """Yields the text pieces of parsed wikitext, and whether each is code or a formula."""

    hidden_prefixes: frozenset[str]
    language: str

    def render(self, code: Any, *, in_code: bool) -> Iterator[tuple[str, bool]]:
        nodes = [] if code is None else code.nodes
        after_mark = False
        before = ""

        for node, following in zip(nodes, [*nodes[1:], None], strict=False):
            # of consecutive list marks, only the last one is shown
            if type(node).__name__ == "Tag" and node.wiki_markup in _LIST_MARKS:
                is_last = getattr(following, "wiki_markup", None) not in _LIST_MARKS
                yield (
                    (
                        node.wiki_markup
                        if in_code
                        else "- " * (is_last and node.wiki_markup in "*#")
                    ),
                    in_code,
                )
                after_mark = not in_code
                continue

            for text, is_code in self._render_node(node, before, in_code=in_code):
                piece = text.lstrip(" \t") if after_mark else text
                yield piece, is_code
                before = piece or before

            after_mark = False

    def _render_node(self, node: Any, before: str, *, in_code: bool) -> Iterator[tuple[str, bool]]:
        part = None  # the part of the node that a page shows
        match type(node).__name__:
            case "Text":
                yield node.value, in_code
            case "HTMLEntity":
                yield node.normalize(), in_code
            case "Tag":
                yield from self._render_tag(node, before, in_code=in_code)
            case "Template":
                shown = self._show_template(node, before)
                yield ("" if in_code else _HOLE) if shown is None else shown, in_code
            case "Wikilink":
                shown = resolve_link_text(str(node.title), node.text, self.hidden_prefixes)
                if shown is None:
                    part = node.title if node.text is None else node.text
                else:
                    yield shown, in_code
            case "ExternalLink":
                part = node.title if node.brackets else node.url
            case "Heading":
                part = node.title
            case "Argument":
                part = node.default
        yield from self.render(part, in_code=in_code)

    def _render_tag(self, tag: Any, before: str, *, in_code: bool) -> Iterator[tuple[str, bool]]:
        name = str(tag.tag).strip().lower()
        if name in _FORMULA_TAGS:
            yield str(tag.contents or "").strip(), True
        elif name == "sup":
            raised = self._render_text(tag.contents)
            yield f"^{raised}" if is_exponent(raised, before) else raised, in_code
        elif name not in _HIDDEN_TAGS:
            edge = "\n" if name in _BLOCK_TAGS else ""
            yield edge, in_code
            yield from self.render(tag.contents, in_code=in_code or name in _CODE_TAGS)
            if name != "br":
                yield edge, in_code

    def _show_template(self, node: Any, before: str) -> str | None:
        """Return the text of an inline template; None for all others."""
        show = find_template(self._render_text(node.name))
        if show is None:
            return None
        positional: list[str] = []
        named: dict[str, str] = {}

        for parameter in node.params[:_MOST_PARAMETERS]:
            key = self._render_text(parameter.name)
            value = self._render_text(parameter.value)
            if not parameter.showkey or (key.isdecimal() and int(key[:9]) == len(positional) + 1):
                positional.append(value)
            else:
                named[key.lower()] = value

        return show(TemplateCall(positional, named, self.language, before))

    def _render_text(self, code: object) -> str:
        return (
            "".join(piece for piece, _ in self.render(code, in_code=False))
            .replace(_HOLE, "")
            .strip()
        )


def _choose_variant(match: re.Match[str]) -> str:
    """Return the first variant of `-{zh-hans:a; zh-hant:b}-`; "" for a rule that is not shown."""
    flags, _, text = match[1].rpartition("|")
    if not _HIDDEN_VARIANT.isdisjoint(flag.strip() for flag in flags.split(";")):
        return ""
    language = _LANGUAGE.match(text)
    return text if language is None else text[language.end() :].partition(";")[0].strip()
