"""Numbers of charts and pages: short ones, durations, and axes that name their unit once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from matplotlib.axis import Axis

# Units of an axis whose numbers are large.
_LARGE: Final = {1e9: "billions", 1e6: "millions", 1e3: "thousands"}
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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


def duration(seconds: float) -> str:
    """Return a time in the units that people use: 0.1 s, 24.6 s, 1 min 50 s, 2 h 3 min."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60:,} h {minutes % 60} min"


def scale_axis(axis: Axis, limits: tuple[float, float]) -> str:
    """Let an axis show its numbers in a unit, and return the name of the unit, "" for one."""
    from matplotlib.ticker import FixedLocator, FuncFormatter

    if isinstance(axis.get_major_locator(), FixedLocator):
        return ""  # its texts are given
    highest = max(map(abs, limits))
    unit, name = 1.0, ""
    if highest >= 1e4:
        unit, name = next(((size, name) for size, name in _LARGE.items() if highest >= size), (1.0, ""))
    if 0 < highest < 1e-3 or highest >= 1e12:
        exponent = math.floor(math.log10(highest))
        unit, name = 10.0**exponent, f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    axis.set_major_formatter(FuncFormatter(lambda value, _: short(value / unit)))
    return name
