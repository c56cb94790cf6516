"""From matplotlib to a picture of a page: text stays text, colours are variables of the page.

A picture is 340 units wide, so that its text is legible on a telephone, and stretches with its box. Equal data give
equal bytes. matplotlib is imported by the first picture that is drawn: a process that draws none pays nothing.
"""

from __future__ import annotations

import io
import re
import unicodedata
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from pipeline.html_page import escape, visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LINE", "MUTED", "SHADES", "WIDTH", "Paint", "canvas", "figure", "key", "label", "plot", "shade", "short"]

WIDTH: Final = 340
"""Units from left to right; a unit is about a pixel on a telephone."""
_PLOT_HEIGHT: Final = 190
_MARGINS: Final = (50, 12, 8, 36)
"""Left, right, top and bottom of a plot, in units."""
_LABEL_CHARACTERS: Final = 42
"""Columns of text that fit below a plot."""
_TICKS: Final = 5
SHADES: Final = 8
"""Colours of series that are told apart."""

# Colours that only hold a place in the SVG: variables of the page's style replace them.
_INK: Final = "#000001"
MUTED: Final = "#000002"
LINE: Final = "#000003"
_VARIABLES: Final = {_INK: "currentColor", MUTED: "var(--muted)", LINE: "var(--line)"} | {
    f"#00000{number + 4:x}": f"var(--c{number})" for number in range(SHADES)
}
_PARAMETERS: Final[Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "clozeline",
    "font.family": "DejaVu Sans",  # it comes with matplotlib: the layout is the same on every machine
    "font.size": 10.5,
    "text.parse_math": False,
    "text.color": _INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": MUTED,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.spines.left": False,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.xmargin": 0.01,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.bottom": False,
    "ytick.left": False,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
}
_UNWANTED: Final = re.compile(r' (id|clip-path)="[^"]*"|font-family: [^;"]*;? ?| transform="rotate\(-0 [^"]*"')

Paint = Callable[["Axes"], None]


def shade(number: int) -> str:
    """Return the colour of series `number`; after eight they repeat."""
    return f"#00000{number % SHADES + 4:x}"


def figure(title: str, described: str, svg: str, keys: Sequence[str] = ()) -> str:
    """Return a picture with its title and legend.

    Args:
        title: what is drawn.
        described: the figures in words, for those who do not see the picture.
        svg: from `canvas` or `plot`.
        keys: entries of the legend, from `key`.
    """
    name = f"<title>{escape(f'{title}: {described}')}</title>"
    legend = " ".join(keys)
    return f"<figure><figcaption><b>{escape(title)}</b> {legend}</figcaption>{svg.replace('>', f'>{name}', 1)}</figure>"


def key(number: int, name: str, *, dashed: bool = False) -> str:
    """Return the entry of a series in a legend."""
    colour = _VARIABLES[shade(number)]
    mark = f'<i class=level style="border-color:{colour}"></i>' if dashed else f'<i style="background:{colour}"></i>'
    return f"<small>{mark}{escape(name)}</small>"


def canvas(height: int, paint: Paint) -> str:
    """Return the SVG of what `paint` draws in units, (0, 0) at the top left, without axes."""

    def place(axes: Axes) -> None:
        axes.set_position((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(height, 0)
        paint(axes)

    return _svg(height, place)


def plot(x_name: str, paint: Paint, x_scale: Literal["linear", "log"] = "linear", *, whole: bool = False) -> str:
    """Return the SVG of what `paint` draws on axes with few, short numbers.

    Args:
        x_name: name of the horizontal axis, which counts whole numbers.
        paint: draws into the axes.
        x_scale: scale of the horizontal axis.
        whole: whether the vertical axis counts whole numbers, too.
    """

    def place(axes: Axes) -> None:
        from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

        left, right, top, bottom = _MARGINS
        width, height = WIDTH - left - right, _PLOT_HEIGHT - top - bottom
        axes.set_position((left / WIDTH, bottom / _PLOT_HEIGHT, width / WIDTH, height / _PLOT_HEIGHT))
        axes.set_xlabel(label(x_name, _LABEL_CHARACTERS))
        axes.set_xscale(x_scale)
        if x_scale == "linear":
            axes.xaxis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10], integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10], integer=whole))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
            axis.set_minor_formatter(NullFormatter())
        paint(axes)

    return _svg(_PLOT_HEIGHT, place)


def short(value: float) -> str:
    """Return a number as an axis shows it: 1.25e-4, 0.005, 4,096, 20k, 1.5M."""
    value = float(f"{value:.4g}")  # rounded first: 9999.9 is 10k, and 0.0009999 a tick at 0.001
    if abs(value) >= 1e4:
        value = float(f"{value:.3g}")
        size, letter = next(pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if abs(value) >= pair[0])
        return f"{value / size:.4g}{letter}"
    if 0 < abs(value) < 1e-3 and (tiny := float(f"{value:.3g}")) and abs(tiny) < 1e-3:
        mantissa, exponent = f"{tiny:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.4g}"


def label(text: str, limit: int) -> str:
    """Return text on one line, cut to `limit` columns; characters of East Asian scripts take two."""
    shown, width = "", 0
    for character in " ".join(visible(text).split()):
        width += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if width > limit:
            return f"{shown[:-1]}…"
        shown += character
    return shown


def _svg(height: int, paint: Paint) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name in a script that DejaVu lacks: the browser has a font for it
        mpl.rcdefaults()  # a user's own settings must not change the page
        mpl.rcParams.update(_PARAMETERS)
        drawn = Figure(figsize=(WIDTH / 72, height / 72))
        drawn.patch.set_visible(False)
        axes = drawn.add_subplot()
        axes.patch.set_visible(False)
        paint(axes)
        stream = io.StringIO()
        drawn.savefig(stream, format="svg", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type")))
    return _themed(stream.getvalue(), height)


def _themed(svg: str, height: int) -> str:
    """Return matplotlib's SVG as part of a page: no ids, no style sheet, no fixed size, the page's colours."""
    inside = svg[svg.index(">", svg.index("<svg")) + 1 :]
    marks = dict(re.findall(r'<path id="([^"]*)" d="([^"]*)"', inside))
    inside = re.sub(r"<(metadata|defs).*?</\1>", "", inside, flags=re.DOTALL)
    inside = re.sub(r"<[^>]*>", lambda tag: _tag(tag[0], marks), inside)  # texts between tags stay as they are
    inside = re.sub(r">\s+<", "><", inside).strip()
    return f'<svg role=img viewBox="0 0 {WIDTH} {height}">{inside}'


def _tag(tag: str, marks: Mapping[str, str]) -> str:
    """Return a tag without what the page gives it; a reference to a mark becomes the mark itself."""
    tag = _UNWANTED.sub("", re.sub(r"\s+", " ", tag))
    if used := re.match(r'<use xlink:href="#([^"]*)" x="([^"]*)" y="([^"]*)"', tag):
        mark = " ".join(marks[used[1]].split())
        tag = tag.replace(used[0], f'<path d="{mark}" transform="translate({used[2]} {used[3]})"')
    return re.sub("#00000[1-9ab]", lambda colour: _VARIABLES[colour[0]], tag)
