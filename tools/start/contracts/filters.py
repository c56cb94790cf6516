"""The contract of filters."""

from dataclasses import fields
from typing import Any, Final

from clozeline.pipeline.clean.filters import Filter, Verdict
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.registries import FILTERS, FilterComponent
from clozeline.pipeline.text.normal_form import normalize
from clozeline.pipeline.text.text_statistics import TextStatistics
from clozeline.tools.start.contracts import Entry, require

_TEXTS: Final = (
    "",
    "x" * 400,
    "spam " * 400,
    "a\n" * 400,
    ". , " * 200,
    "THE RIVER IS WIDE AND SLOW.\n" * 9,
    "Lorem ipsum {",
    " ".join(map(str, range(400))),
    "one two three four five six seven eight nine ten eleven. " * 40,
    "Write to ada@example.org, or call 0301 234567.\n",
    "Das Café am Fluß ist geschlossen.\n",
    "河很宽，水流很慢。" * 9,
)


def judge_text(step: Filter, text: str, language: str = "en", **known: Any) -> Verdict:
    """Return the verdict on a text, judged as a document.

    More may be known of a document, such as `url` or `extra`.
    """
    document = Document(uid=bytes(16), text=text, source="check", language=language, **known)
    return step.judge(document, TextStatistics(text))


def prepare(entry: Entry) -> FilterComponent:
    """Return the filter with its options."""
    return FILTERS.resolve(entry)


def check_declarations(case: FilterComponent) -> None:
    """It declares its version, its reasons and what it does."""
    version = getattr(case.type, "VERSION", None)
    reasons = getattr(case.type, "reasons", None)
    require(
        isinstance(version, int),
        f"VERSION: expected a number, raised when verdicts change, got {version!r}",
    )
    require(isinstance(reasons, tuple), f"reasons: expected a tuple of names, got {reasons!r}")
    known: set[str] = {option.name for option in fields(case.type.Options)}
    require(
        issubclass(case.type, Filter),
        "expected a subclass of clozeline.pipeline.clean.filters.Filter",
    )

    for reason, option in case.type.thresholds.items():
        is_known = reason in case.type.reasons and option in known
        require(
            is_known,
            f"thresholds: expected one of its reasons and one of its options, got {reason!r}: "
            f"{option!r}",
        )

    require(case.type.__doc__, "expected a docstring that says what it rejects, got none")


def check_verdicts(case: FilterComponent) -> None:
    """A text gets the same verdict after any other texts, with a declared reason."""
    judged = case.build()
    texts = [*map(normalize, _TEXTS)]

    first = [judge_text(judged, text) for text in texts]

    for other in (judged, case.build()):
        for text, verdict in reversed([*zip(texts, first, strict=True)]):
            again = judge_text(other, text)
            require(
                again == verdict,
                f"{text[:40]!r}: expected {verdict} again, got {again}; keep no state of texts",
            )

    for text, verdict in zip(texts, first, strict=True):
        known = ("", *case.type.reasons)
        require(
            verdict.reason in known or case.type.has_further_reasons,
            f"{text[:40]!r}: expected a reason of {known}, got '{verdict.reason}'",
        )
        edited = verdict.text if verdict.text is not None else text
        require(
            edited == normalize(edited),
            f"{text[:40]!r}: expected an edit in stored form; call `normalize`",
        )


CHECKS: Final = (check_declarations, check_verdicts)
