"""Score texts with a fastText quality classifier (DCLM, arXiv:2406.11794, section 4.4)."""

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

from pydantic import Field

from clozeline.configuration.config import HOME_EXPANDED, config_class
from clozeline.errors import ConfigurationError
from clozeline.pipeline.clean.filters import DATA_FILE, Measure, ThresholdFilter, Verdict, at_least
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.process import ChildLimits, python_command, run_child

_LOAD: Final = "import sys, fasttext; fasttext.load_model(sys.argv[1]).predict('a', k=-1)"
_LOAD_SECONDS: Final = 120


class Quality(ThresholdFilter):
    """Rejects texts with a low score of a fastText model; writes each score as `quality`.

    The score is the probability of a label. DCLM keeps the tenth of its pages with the highest
    scores.
    """

    VERSION: ClassVar[int] = 2
    thresholds: ClassVar[Mapping[str, str]] = {"low_quality": "threshold"}
    reasons: ClassVar[tuple[str, ...]] = tuple(thresholds)

    @config_class
    class Options:
        """The model, its label for good texts, and the minimum score."""

        model: Annotated[Path, HOME_EXPANDED] = field(metadata=DATA_FILE)
        """fastText classifier (.bin or .ftz); if its content changes, documents are cleaned
        again"""
        label: str = "__label__hq"
        """label whose probability is the score"""
        threshold: Annotated[float, Field(ge=0, le=1)] = 0.0
        """minimum score of a kept document, 0 to 1; 0 keeps all"""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._model = _load_model(options.model)
        if options.label not in (labels := self._model.predict("a", k=-1, threshold=-1.0)[0]):
            raise ConfigurationError(
                f"quality: {options.model} has no label {options.label!r}; set `label` to one of "
                f"its {len(labels)} labels: {', '.join(sorted(labels)[:8])}"
            )

    def measure(self, document: Document, statistics: TextStatistics) -> Iterator[Measure]:
        """Yield the score."""
        yield at_least(
            "low_quality", self._score(statistics.text), self._options.threshold, "{:.4f}"
        )

    def judge(self, document: Document, statistics: TextStatistics) -> Verdict:
        """Return the verdict by the threshold, with the score."""
        score = self._score(statistics.text)
        least = self._options.threshold
        reason, detail = ("low_quality", f"{score:.4f} < {least}") if score < least else ("", "")
        return Verdict(reason, detail, columns={"quality": score})

    def _score(self, text: str) -> float:
        # the model reads one line; rounding may give probabilities above 1
        probabilities = dict(
            zip(*self._model.predict(" ".join(text.split()), k=-1, threshold=-1.0), strict=True)
        )
        return round(min(1.0, float(probabilities[self._options.label])), 6)


@cache
def _load_model(path: Path) -> Any:
    """Load a model, first in a child process.

    The library may hang, or end the process, if a file is damaged.
    """
    try:
        import fasttext
    except ImportError as error:
        raise ConfigurationError(
            f"quality: needs the package fasttext-predict ({error}): pip install "
            "'clozeline[quality]'"
        ) from error

    try:
        command = python_command("-c", _LOAD, str(path))
        done = run_child(command, limits=ChildLimits(), timeout_s=_LOAD_SECONDS, text=True)
        reason = (
            (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
            if done.returncode
            else ""
        )
    except subprocess.TimeoutExpired:
        reason = f"loading it takes more than {_LOAD_SECONDS} s"

    if reason:
        raise ConfigurationError(
            f"quality: {path}: expected a fastText classifier, .bin or .ftz ({reason}); copy the "
            "file again"
        )

    return fasttext.load_model(str(path))
