"""Numbers of charts and pages: short ones, durations, round ticks, and axes that name their unit once."""

import math
from typing import Final

# Intervals between the numbers of an axis, about.
_TICKS: Final = 5
# Units of an axis whose numbers are large.
_LARGE: Final = {1e9: "billions", 1e6: "millions", 1e3: "thousands"}
_BYTES: Final = ("bytes", "KB", "MB", "GB", "TB")
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


def time_left(seconds: float) -> str:
    """Return the rest of a run in hours, minutes and seconds: 0:49:00 left."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02} left"


def size_text(size: float) -> str:
    """Return a number of bytes in decimal units: `7.3 GB`."""
    for unit in _BYTES[:-1]:
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == _BYTES[0] else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} {_BYTES[-1]}"


def unit_of(low: float, high: float) -> tuple[float, str]:
    """Return the unit in which an axis shows its numbers, with its name: (1e6, "millions"); (1, "") for none."""
    highest = max(abs(low), abs(high))
    if 0 < highest < 1e-3 or highest >= 1e12:
        exponent = math.floor(math.log10(highest))
        return 10.0**exponent, f"10{str(exponent).translate(_SUPERSCRIPTS)}"
    if highest >= 1e4:
        return next((size, name) for size, name in _LARGE.items() if highest >= size)
    return 1.0, ""


def nice_ticks(low: float, high: float, *, integers: bool = False) -> list[float]:
    """Return three to seven round values between two, 1, 2, 2.5 or 5 times a power of ten apart.

    `integers`: no fractions, hence fewer values in a short range.
    """
    raw = 0.7 * (high - low) / _TICKS
    exponent = math.floor(math.log10(raw))
    steps = [factor * 10.0**power for power in (exponent, exponent + 1) for factor in (1, 2, 2.5, 5)]
    if integers:
        steps = [1.0, *(step for step in steps if step >= 1 and step % 1 == 0), 10.0 ** max(0, exponent + 2)]
    step = next(step for step in steps if step >= raw * (1 - 1e-9))
    return [number * step for number in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def power_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between two positive values, at most six; where there is one at most, round multiples."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    every = max(1, math.ceil((last - first + 1) / (_TICKS + 1)))
    powers = [10.0**power for power in range(first, last + 1, every)]
    return powers if len(powers) > 1 else nice_ticks(low, high)
