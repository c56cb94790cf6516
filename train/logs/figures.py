"""The figures of a run: the last and best losses, amounts, speed and memory."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple, TypeAlias

from clozeline.report.recorded_series import RecordedSeries, read_points
from clozeline.terminal import duration, size_text
from clozeline.train.logs.display import heldout_title
from clozeline.train.logs.json_lines import step_records

Record: TypeAlias = Mapping[str, Any]

_Show = Callable[[float], str]
_WHOLE: Final[_Show] = "{:,.0f}".format
_LOSS: Final[_Show] = "{:.4f}".format
_SHARE: Final[_Show] = "{:.2%}".format
_LAST: Final[dict[str, _Show]] = {
    "step": _WHOLE,
    "samples": _WHOLE,
    "tokens": _WHOLE,
    "seconds": duration,
    "flops": "{:.3e}".format,
}
_OVER_STEPS: Final[dict[str, tuple[Callable[[list[float]], float], _Show, tuple[str, ...]]]] = {
    "tokens/s, median": (median, _WHOLE, ("tokens_per_s",)),
    "MFU, median": (median, _SHARE, ("mfu",)),
    "share of time waiting for data, median": (median, _SHARE, ("stream", "waited_share")),
    "resident bytes of rank 0, most": (max, size_text, ("memory_bytes",)),
    "accelerator bytes of rank 0, most": (max, size_text, ("device_bytes",)),
}


class Figure(NamedTuple):
    """A number of a run, and how people read it."""

    value: float
    text: str


def figures_of(
    records: Sequence[Record], charts: Sequence[RecordedSeries] = (), group: str = ""
) -> dict[str, Figure]:
    """Return the figures of a run by title, those that most people read first.

    Args:
        records: the records of the run, with the seconds of training.
        charts: the charts that its hooks declared; headlines are figures.
        group: end of the titles of losses, which only runs of a group share.
    """
    found = _iter_figures(records, charts, group)
    return {title: Figure(value, show(value)) for title, value, show in found}


def _iter_figures(
    records: Sequence[Record], charts: Sequence[RecordedSeries], group: str
) -> Iterator[tuple[str, float, _Show]]:
    for name, result in last_heldout(records).items():
        accuracy, majority = scores_of(result)
        if accuracy is not None and majority is not None:
            yield f"{heldout_title(name)} accuracy", accuracy, _SHARE
            yield f"{heldout_title(name)} share of the most frequent label", majority, _SHARE
        title = f"{heldout_title(name)} loss{group}"
        if losses := losses_on(name, records):
            best, step = min(losses)
            yield f"{title}, last", losses[-1][0], _LOSS
            yield f"{title}, best", best, _LOSS
            yield f"{title}, step of the best", step, _WHOLE

    trained = step_records(records)
    last = trained[-1] if trained else {}
    if isinstance(last.get("loss"), float):
        yield f"training loss{group}", last["loss"], _LOSS
    yield from ((key, last[key], show) for key, show in _LAST.items() if key in last)
    for name, result in last_heldout(records).items():
        if result["unigram_entropy"]:
            yield f"{heldout_title(name)} unigram entropy{group}", result["unigram_entropy"], _LOSS
    for title, (summary, show, keys) in _OVER_STEPS.items():
        if values := [value for _, value in read_points(trained, "step", *keys)]:
            yield title, summary(values), show
    for chart in charts:
        if chart.headline and (points := chart.points(records)):
            yield chart.label, points[-1][1], f"{{:,.0f}} {chart.unit}".format


def losses_on(name: str, records: Sequence[Record]) -> list[tuple[float, float]]:
    """Return each finite loss on a held-out set with its step, in the order of the records."""
    points = read_points(records, "step", "heldout", name, "loss")
    return [(loss, step) for step, loss in points if math.isfinite(loss)]


def scores_of(result: Record) -> tuple[float | None, float | None]:
    """Return the accuracy on a held-out set, and the share of its most frequent label.

    None: not measured, or there are several heads.
    """
    heads = [*result.get("losses", {})]
    head = heads[0] if len(heads) == 1 else ""
    accuracy = result.get("figures", {}).get(f"{head}/accuracy")
    return accuracy, result.get("majorities", {}).get(head)


def last_heldout(records: Sequence[Record]) -> dict[str, Any]:
    """Return the latest results by held-out set."""
    return next((heldout for record in reversed(records) if (heldout := results(record))), {})


def results(record: Record) -> dict[str, Any]:
    """Return the results by held-out set, without damaged ones."""
    heldout = record.get("heldout")
    if not isinstance(heldout, Mapping):
        return {}
    needed = {"loss", "unigram_entropy", "labels"}
    return {
        name: result
        for name, result in heldout.items()
        if isinstance(result, Mapping) and needed <= result.keys()
    }
