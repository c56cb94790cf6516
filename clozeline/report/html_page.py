"""Build report pages: single HTML files without scripts or external resources.

All strings are escaped. Functions return trusted HTML; `escape` is the only way to insert text.
"""

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

_LIGHT: Final = "".join(
    (
        "--paper:#fff;--panel:#f6f8fa;--ink:#1b2330;--muted:#566070;--line:#d9dfe7;",
        "--c0:#2a66c8;--c1:#b8501f;--c2:#2a7a4d;--c3:#7a4bb5;",
        "--c4:#a8325f;--c5:#1b7682;--c6:#7d6a10;--c7:#5b6475",
    )
)
_DARK: Final = "".join(
    (
        "--paper:#11151b;--panel:#181e26;--ink:#e6eaf0;--muted:#9aa6b6;--line:#323b48;",
        "--c0:#7eaefc;--c1:#f79a62;--c2:#6cc994;--c3:#c6a2f7;",
        "--c4:#f78fb3;--c5:#66cddb;--c6:#d9c25a;--c7:#a7b1c2",
    )
)
_STYLE: Final = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
*{{box-sizing:border-box}}
html{{font:clamp(15px,.35vw + 11px,22px)/1.5 system-ui,sans-serif;-webkit-text-size-adjust:100%}}
body{{margin:0 auto;max-width:72rem;padding:1rem 1rem 3rem;color:var(--ink);
background:var(--paper)}}
h1{{font-size:1.5rem;line-height:1.25;overflow-wrap:anywhere}}
"""
# CSS rules of the parts of a page, which fragments need too.
_PARTS_STYLE: Final = """
h2{font-size:1.15rem;margin:2.2rem 0 .6rem;overflow-wrap:anywhere}
h3{font-size:1rem;margin:1.2rem 0 .4rem;overflow-wrap:anywhere}
p{max-width:44rem;overflow-wrap:anywhere}.muted,figcaption small{color:var(--muted)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,9rem),1fr));gap:.6rem;
margin:1rem 0}
.facts div,figure,blockquote{background:var(--panel);border:1px solid var(--line);
border-radius:.5rem}
.facts div{padding:.5rem .7rem;min-width:0;display:flex;flex-direction:column-reverse;
justify-content:flex-end}
.facts dt{color:var(--muted);font-size:.8rem;line-height:1.3}
.facts dd{margin:0;font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:.8rem;
align-items:start}
figure{margin:0;padding:.8rem;min-width:0}figcaption{margin-bottom:.5rem;overflow-wrap:anywhere}
figcaption b{display:block}figcaption small{display:inline-block;margin-right:.9em}
figcaption i{display:inline-block;width:1em;margin-right:.35em;border-top:.2em solid;
vertical-align:.25em}
figcaption i.level{border-top-style:dashed}
svg{display:block;width:100%;height:auto;overflow:visible;color:var(--ink)}
svg *{stroke-linejoin:round;stroke-linecap:butt}svg text{font-family:inherit!important}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;font-size:.92rem}
td,th{padding:.25rem 1rem .25rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line)}
th{color:var(--muted);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
blockquote{margin:.5rem 0;padding:.5rem .8rem;font-size:.9rem;white-space:pre-wrap;
overflow-wrap:anywhere}
blockquote footer{color:var(--muted);font-size:.85rem;margin-top:.3rem;white-space:normal}
td:first-child{white-space:nowrap}.grid blockquote{margin:0}pre{font-size:.85rem}
details{margin:1rem 0}.grid>details{grid-column:1/-1}summary{cursor:pointer;font-weight:600}
.lead{font-size:1.1rem}
.bars{margin:0;padding:0}.bars li{display:flex;flex-wrap:wrap;justify-content:space-between;
gap:0 1em;margin-top:.3rem}
.bars i{height:.4rem;flex:0 0 100%;
background:linear-gradient(var(--c0),var(--c0)) no-repeat var(--line)}
@media (max-width:40rem){td:first-child{white-space:normal;min-width:7rem}}
"""
_QUANTITY: Final = re.compile(
    r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?( ?(%|s|bytes|[KMGTP]B))?|[\d,]+ (min|h) \d+ (s|min)"
)
# Most bars of a chart.
_BARS: Final = 20
_UNSEEN: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


def visible(text: str) -> str:
    """Return text with U+FFFD for control characters and lone surrogates, invalid in HTML."""
    return _UNSEEN.sub("\ufffd", text)


def escape(text: str) -> str:
    """Return text as HTML."""
    return html.escape(visible(text))


def page(title: str, parts: Iterable[str], style: str = "") -> str:
    """Return a complete, self-contained page of some HTML parts; `style` has further CSS rules."""
    head = (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
        'content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}{_PARTS_STYLE}{style}</style></head>"
    )
    return f"{head}<body><main><h1>{escape(title)}</h1>{''.join(parts)}</main></body></html>\n"


def fragment(title: str, parts: Iterable[str]) -> str:
    """Return parts to embed in another page, such as the output of a notebook cell.

    All rules are nested in the class of the outermost element, so that they affect nothing outside.
    """
    base_style = (
        f"{_LIGHT};color:var(--ink);background:var(--paper);padding:.5rem .8rem;font:14px/1.5 "
        "system-ui,sans-serif;"
    )
    dark = f"@media (prefers-color-scheme:dark){{{_DARK}}}"
    rules = f".clozeline{{{base_style}{dark}{_PARTS_STYLE}}}"
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f"<div class=clozeline><style>{rules}</style>{heading}{''.join(parts)}</div>"


def section(title: str, *parts: str) -> str:
    """Return a heading with its content, or "" without content."""
    inside = "".join(parts)
    return f"<section><h2>{escape(title)}</h2>{inside}</section>" if inside else ""


def lead(text: str) -> str:
    """Return the introductory sentences of a page; "" without text."""
    return f"<p class=lead>{escape(text)}</p>" if text else ""


def tiles(values: Mapping[str, str]) -> str:
    """Return short values, each with its name below, as tiles."""
    tiles = (
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>"
        for name, value in values.items()
    )
    return f"<dl class=facts>{''.join(tiles)}</dl>"


def grid(*parts: str) -> str:
    """Return parts side by side where they fit; "" if all of them are empty."""
    return f"<div class=grid>{''.join(parts)}</div>" if any(parts) else ""


def collapsible(title: str, *parts: str) -> str:
    """Return parts that a click on the title opens."""
    return f"<details><summary>{escape(title)}</summary>{''.join(parts)}</details>"


def listing(text: str) -> str:
    """Return preformatted text, such as a configuration."""
    return f"<pre class=scroll tabindex=0>{escape(text)}</pre>"


def quote(text: str, origin: str = "") -> str:
    """Return a block quote in the direction of its script, with its origin below."""
    below = f"<footer>{escape(origin)}</footer>" if origin else ""
    return f"<blockquote dir=auto>{escape(text)}{below}</blockquote>"


def bars(title: str, counts: Mapping[str, int], total: int | None = None) -> str:
    """Return counts as horizontal bars, in this order; "" without counts.

    `total` is the count of a full-width bar, and shares of it are shown; without it, the largest
    count fills the width.
    """
    full = total or max(counts.values(), default=0) or 1
    rows = []
    for name, count in counts.items():
        share = f" · {100 * count / full:.1f} %" if total else ""
        bar = f'<i style="background-size:{min(1, count / full):.2%} 100%"></i>'
        rows.append(
            f"<li><span>{escape(name)}</span><span class=muted>{count:,}{share}</span>{bar}</li>"
        )
    caption = f"<figcaption><b>{escape(title)}</b></figcaption>"
    return f"<figure>{caption}<ul class=bars>{''.join(rows)}</ul></figure>" if rows else ""


def largest(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the twenty largest counts.

    If there are more, the last sums the others. Zeros are dropped.
    """
    items = sorted(
        ((name, count) for name, count in counts.items() if count),
        key=lambda item: (-item[1], item[0]),
    )
    if len(items) > _BARS:
        others = items[_BARS - 1 :]
        total = sum(count for _, count in others)
        items = [*items[: _BARS - 1], (f"{len(others):,} others", total)]
    return dict(items)


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a scrollable table; numbers are right-aligned, also as text with units (`1.5 MB`)."""

    def is_number(value: object) -> bool:
        return isinstance(value, int | float) or _QUANTITY.fullmatch(str(value)) is not None

    def cell(value: object) -> str:
        if isinstance(value, int):
            shown = f"{value:,}"
        else:
            shown = f"{value:,.1f}" if isinstance(value, float) else str(value)
        return f"<td{' class=n' * is_number(value)}>{escape(shown)}</td>"

    lines = list(rows)
    # a column counts as numeric if its first cell is
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in lines)
    right = [is_number(value) for value in (lines[0] if lines else header)]
    names = "".join(
        f"<th scope=col{' class=n' * number}>{escape(name)}</th>"
        for name, number in zip(header, right, strict=True)
    )
    top = f"<tr>{names}</tr>" if any(header) else ""
    return f"<div class=scroll tabindex=0><table>{top}{body}</table></div>"
