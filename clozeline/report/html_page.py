"""Draw views as HTML: pages, single files without scripts or external resources, and fragments.

All strings are escaped. Functions return trusted HTML.
"""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Final

from clozeline.files import PAGE_MARK
from clozeline.report.charts import draw_chart
from clozeline.report.escaping import escape
from clozeline.report.views import (
    Bars,
    Block,
    Cell,
    Chart,
    Grid,
    Part,
    Passage,
    Section,
    Span,
    Table,
    cell_text,
    is_empty,
    is_number,
)

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
h3,h4,h5{font-size:1rem;margin:1.2rem 0 .4rem;overflow-wrap:anywhere}
p{max-width:44rem;overflow-wrap:anywhere}h1+p{font-size:1.1rem}
.muted,figcaption small{color:var(--muted)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,9rem),1fr));gap:.6rem;
margin:1rem 0}
.facts div,figure,blockquote{background:var(--panel);border:1px solid var(--line);
border-radius:.5rem}
.facts div{padding:.5rem .7rem;min-width:0;display:flex;flex-direction:column-reverse;
justify-content:flex-end}
.facts dt{color:var(--muted);font-size:.8rem;line-height:1.3}
.facts dd{margin:0;font-size:1.25rem;font-weight:600;overflow-wrap:anywhere}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,26rem),1fr));gap:.8rem;
align-items:start;margin:.8rem 0}
figure{margin:0;padding:.8rem;min-width:0}figcaption{margin-bottom:.5rem;overflow-wrap:anywhere}
figcaption b{display:block}figcaption small{display:inline-block;margin-right:.9em}
figcaption i{display:inline-block;width:1em;margin-right:.35em;border-top:.2em solid;
vertical-align:.25em}
figcaption i.level{border-top-style:dashed}
svg{display:block;width:100%;height:auto;overflow:visible;color:var(--ink)}
svg *{stroke-linejoin:round;stroke-linecap:butt}svg text{font-family:inherit!important}
.scroll{overflow-x:auto;width:fit-content;max-width:100%;background:
linear-gradient(90deg,var(--paper) 30%,transparent) 0/2.5rem 100% no-repeat local,
linear-gradient(270deg,var(--paper) 30%,transparent) calc(100% + 1px)/2.5rem 100% no-repeat local,
linear-gradient(90deg,var(--muted),transparent) 0/.5rem 100% no-repeat,
linear-gradient(270deg,var(--muted),transparent) 100%/.5rem 100% no-repeat}
table{border-collapse:collapse;font-size:.92rem}
td,th{padding:.25rem 1rem .25rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line);white-space:pre-line}
th{color:var(--muted);font-weight:600}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;
white-space:nowrap}
blockquote{margin:.5rem 0;padding:.5rem .8rem;font-size:.9rem;white-space:pre-wrap;
overflow-wrap:anywhere}
blockquote footer{color:var(--muted);font-size:.85rem;margin-top:.3rem;white-space:normal}
td:first-child{white-space:nowrap}.grid blockquote{margin:0}pre{font-size:.85rem}
details{margin:1rem 0}.grid>details{grid-column:1/-1}summary{cursor:pointer;font-weight:600}
.special,.marker{color:var(--muted)}.prefix{font-style:italic;color:var(--c5)}
.masked,.replaced,.unchanged,.sentinel,.predicted{font-weight:600;color:#000;border-radius:.2rem}
.masked{color:#fff;background:#a4161a}.replaced{background:#ffd166}.unchanged{background:#7bd88f}
.sentinel{background:#6fd6e8}.predicted{background:#f2a2f2}
.right{font-weight:600;color:var(--c2)}.wrong{text-decoration:line-through;color:var(--c1)}
.code{display:block;overflow-x:auto;white-space:pre;font-family:monospace}
.words td{padding:.1rem .4rem;text-align:center;white-space:nowrap}.words td:empty{border:0}
.words td{white-space:pre}.words th{white-space:nowrap}
.bars{margin:0;padding:0}.bars li{display:flex;flex-wrap:wrap;justify-content:space-between;
gap:0 1em;margin-top:.3rem}
.bars i{height:.4rem;flex:0 0 100%;
background:linear-gradient(var(--c0),var(--c0)) no-repeat var(--line)}
@media (max-width:40rem){td:first-child{white-space:normal;min-width:7rem}}
@media (max-width:30rem){table:not(.words) :is(tr,td){display:block;border:0;padding:.1rem 0}
table:not(.words) tr{padding:.4rem 0;border-bottom:1px solid var(--line)}
table:not(.words) th{display:none}table:not(.words) td{white-space:pre-line;
overflow-wrap:anywhere}table:not(.words) td.n{text-align:left}
table:not(.words) td:empty{display:none}
td[data-name]::before{content:attr(data-name)": ";color:var(--muted)}}
"""


def page(view: Section) -> str:
    """Return a complete, self-contained page of a view."""
    title = escape(view.title)
    head = (
        "<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport "
        f'content="width=device-width">{PAGE_MARK}'
        f"<title>{title}</title><style>{_STYLE}{_PARTS_STYLE}</style></head>"
    )
    return f"{head}<body><main><h1>{title}</h1>{_draw_all(view.parts, 2)}</main></body></html>\n"


def fragment(view: Section) -> str:
    """Return a view to embed in another page, such as the output of a notebook cell.

    All rules are nested in the class of the outermost element, so that they affect nothing outside.
    """
    base_style = (
        f"{_LIGHT};color:var(--ink);background:var(--paper);padding:.5rem .8rem;font:14px/1.5 "
        "system-ui,sans-serif;"
    )
    dark = f"@media (prefers-color-scheme:dark){{{_DARK}}}"
    rules = f".clozeline{{{base_style}{dark}{_PARTS_STYLE}}}"
    inside = f"{_heading(view.title, 3)}{_draw_all(view.parts, 4)}"
    return f"<div class=clozeline><style>{rules}</style>{inside}</div>"


class Viewed:
    """Base of objects that a notebook shows by their view."""

    __slots__ = ()

    def view(self) -> Section:
        """Return what a notebook shows."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return fragment(self.view())


def _heading(title: str, level: int) -> str:
    return f"<h{level}>{escape(title)}</h{level}>" if title else ""


def _draw_all(parts: Sequence[Part], level: int) -> str:
    return "".join(_draw(part, level) for part in parts if not is_empty(part))


def _draw(part: Part, level: int) -> str:
    """Return the HTML of a part; its title is a heading of the level."""
    match part:
        case str():
            return f"<p>{escape(part)}</p>"
        case Section(title, parts):
            inside = _draw_all(parts, min(level + 1, 5))
            if part.is_row:
                inside = f"<div class=grid>{inside}</div>"
            if part.is_folded:
                return f"<details><summary>{escape(title)}</summary>{inside}</details>"
            return f"<section>{_heading(title, level)}{inside}</section>"
        case Passage(title, spans, origin):
            below = f"<footer>{escape(origin)}</footer>" if origin else ""
            text = "".join(map(_span, spans))
            return f"{_heading(title, level)}<blockquote dir=auto>{text}{below}</blockquote>"
        case Table(title, header, rows):
            if title or header:
                return f"{_heading(title, level)}{_table(header, rows)}"
            values = "".join(
                f"<div><dt>{_cell(name)}</dt><dd>{_cell(value)}</dd></div>" for name, value in rows
            )
            return f"<dl class=facts>{values}</dl>"
        case Grid(blocks):
            return "".join(map(_words, blocks))
        case Chart():
            return draw_chart(part)
        case Bars(title):
            rows = "".join(
                f"<li><span>{escape(name)}</span><span class=muted>{text}</span>"
                f'<i style="background-size:{share:.2%} 100%"></i></li>'
                for name, text, share in part.rows
            )
            caption = f"<figcaption><b>{escape(title)}</b></figcaption>"
            return f"<figure>{caption}<ul class=bars>{rows}</ul></figure>"


def _span(span: Span) -> str:
    text = escape(span.text)
    remark = f' title="{escape(span.remark)}"' if span.remark else ""
    role = f' class="{span.role}"' if span.role else ""
    return f"<span{role}{remark}>{text}</span>" if role or remark else text


def _cell(cell: Cell) -> str:
    return _span(cell) if isinstance(cell, Span) else escape(cell_text(cell))


def _table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Return a table that scrolls, or stacks on a phone; columns of numbers are set right."""
    names = "".join(
        f"<th scope=col{' class=n' * is_number(cell)}>{escape(name)}</th>"
        for name, cell in zip(header, rows[0], strict=False)
    )
    top = f"<tr>{names}</tr>" if any(header) else ""
    body = "".join(f"<tr>{_cells(row, header)}</tr>" for row in rows)
    return f"<div class=scroll tabindex=0><table>{top}{body}</table></div>"


def _cells(row: Sequence[Cell], header: Sequence[str] = ()) -> str:
    """Return the cells of a row; on a narrow screen each but the first stands after its name."""
    cells = ""
    for cell, name in zip(row, chain(("", *header[1:]), repeat("")), strict=False):
        named = f' data-name="{escape(name)}"' if name else ""
        cells += f"<td{' class=n' * is_number(cell)}{named}>{_cell(cell)}</td>"
    return cells


def _words(block: Block) -> str:
    lines = (f"<tr><th scope=row>{escape(name)}</th>{_cells(words)}</tr>" for name, words in block)
    return f"<div class=scroll tabindex=0><table class=words>{''.join(lines)}</table></div>"
