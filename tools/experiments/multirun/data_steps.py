"""Removals of each step of a pipeline from a corpus, and the share of dirt among them.

A step is the difference between two pipelines: a variant and its base. `benchmarks.spoil_corpus` writes the truth,
which no pipeline reads; here it meets the documents that are left, by file and byte offset.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.files import read_json
from clozeline.pipeline.execution.stages import document_stages, last_documents
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.tools.experiments.multirun.study_plan import Variant
from clozeline.tools.experiments.multirun.study_scores import verdict
from clozeline.tools.runs.evaluation.local_texts import json_lines

WORTHLESS: Final = frozenset({"language", "salad", "advert", "leak"})
"""Kinds of documents that are dirt by themselves, `leak` while the item is in the text; copies are dirt while another
copy is left."""
KINDS: Final = ("clean", "exact", "near", "boilerplate", "language", "salad", "advert", "leak")
Key = tuple[str, int]
"""A document: name of its file, byte offset."""


@dataclass(frozen=True)
class Fact:
    """Origin and kind of a document of a spoilt corpus."""

    kind: str
    origin: int  # number of the clean document that it is a copy of; -1: none
    planted: tuple[str, ...] = ()


@dataclass(frozen=True)
class Left:
    """The documents that a pipeline leaves, and the seconds that it took until then."""

    texts: Mapping[Key, str]
    seconds: float

    @property
    def characters(self) -> int:
        """Return the characters of all texts."""
        return sum(map(len, self.texts.values()))


@dataclass(frozen=True)
class StepFigures:
    """Changes by a step: documents, characters, and, with a truth, shares of dirt."""

    documents: int
    removed: int
    characters: float  # share of the base's characters that is left
    seconds: float  # more than the base took
    precision: float | None = None  # share of the removed documents that was dirt; None: nothing was removed
    recall: float | None = None  # share of the dirt that the step is for, and that its base left, that it removed


def read_truth(path: Path) -> dict[Key, Fact]:
    """Read the truth of a spoilt corpus."""
    rows = (row for _, row in json_lines(path))
    return {
        (row["file"], row["offset"]): Fact(row["kind"], row["origin"], tuple(row.get("planted", ()))) for row in rows
    }


def read_left(output: Path) -> Left:
    """Return the documents that a finished pipeline leaves, with the seconds of its stages up to them."""
    documents = read_all_documents(last_documents(output))
    texts = {(Path(each.source).name, each.offset): each.text for each in documents}
    reports = (read_json(output / name / "report.json") or {} for name in document_stages())
    return Left(texts, sum(float(report.get("seconds", 0)) for report in reports))


def compare_steps(
    base: Left, left: Left, truth: Mapping[Key, Fact] | None = None, targets: Sequence[str] = ()
) -> StepFigures:
    """Return what a step changed. `targets` are the kinds of dirt that it is for, which its recall is about.

    Raises:
        ConfigurationError: if documents are not in the truth.
    """
    removed = base.texts.keys() - left.texts.keys()
    characters = left.characters / max(1, base.characters)
    figures = StepFigures(len(left.texts), len(removed), characters, left.seconds - base.seconds)
    if truth is None:
        return figures
    if unknown := next((key for key in base.texts if key not in truth), None):
        raise ConfigurationError(
            f"truth: expected a row for {unknown[0]}, byte {unknown[1]}, got none; give the truth.jsonl of this corpus"
        )
    dirt = sum(_is_dirt(truth[key], base.texts[key]) for key in removed) + _redundant(base, left, truth)
    there = gone = 0
    for target in targets:
        before, after = (_amount(target, some, truth) for some in (base, left))
        there, gone = there + before, gone + before - after
    precision = dirt / len(removed) if removed else None
    return replace(figures, precision=precision, recall=gone / there if there else None)


def step_lines(
    variants: Mapping[str, Variant],
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    left: Mapping[str, Left],
    truth: Mapping[Key, Fact] | None,
) -> Iterator[str]:
    """Yield what each step from a variant to the next removed, the documents by kind, and the nats that it gained."""
    heads = ("documents", "removed", "precision", "recall", "characters", "seconds")
    yield f"{'step':<18}" + "".join(f"{head:>12}" for head in heads)
    steps = {name: variant.base for name, variant in variants.items() if variant.base is not None}
    for name in variants:
        if name not in steps:
            yield f"{name:<18}{len(left[name].texts):>12,}"
            continue
        step = compare_steps(left[steps[name]], left[name], truth, variants[name].targets)
        shares = ("" if share is None else f"{share:.3f}" for share in (step.precision, step.recall))
        cells = (f"{step.documents:,}", f"{step.removed:,}", *shares, f"{step.characters:.3f}", f"{step.seconds:+.1f}")
        yield f"{name:<18}" + "".join(f"{cell:>12}" for cell in cells)
    if truth is not None:
        yield f"{'documents left':<18}" + "".join(f"{kind:>12}" for kind in KINDS)
        for name in variants:
            counts = Counter(truth[key].kind for key in left[name].texts)
            yield f"{name:<18}" + "".join(f"{counts[kind]:>12,}" for kind in KINDS)
    for number, measure in enumerate(next(iter(runs.values()))[0]["losses"]):
        for name, base in steps.items():
            lower, higher = ([np.array(of_seed["losses"][measure]) for of_seed in runs[each]] for each in (name, base))
            outcome = verdict(lower, higher)
            # the first measure decides; on leaked items a lower loss is no gain
            word = "pays" if outcome.low > 0 else "costs" if outcome.high < 0 else "undecided"
            yield (
                f"{measure}: {name} gains {outcome.difference:+.3f} nats [{outcome.low:+.3f}, {outcome.high:+.3f}]"
                + ("" if number else f": {word}")
                + ("" if outcome.seeds > 1 else ", one seed")
            )


def _members(keys: Iterable[Key], truth: Mapping[Key, Fact], kinds: frozenset[str] | None = None) -> Counter[int]:
    """Count the copies of each clean document, those with an item apart."""
    facts = (truth[key] for key in keys)
    return Counter(
        fact.origin for fact in facts
        if fact.origin >= 0 and fact.kind not in WORTHLESS and (kinds is None or fact.kind in kinds)
    )  # fmt: skip


def _is_dirt(fact: Fact, text: str) -> bool:
    return fact.kind in WORTHLESS and (fact.kind != "leak" or any(item in text for item in fact.planted))


def _redundant(base: Left, left: Left, truth: Mapping[Key, Fact]) -> int:
    """Return how many removed documents had another copy: of a group that was removed entirely, all but one."""
    before, after = (_members(some.texts, truth) for some in (base, left))
    return sum(min(count - after[origin], count - 1) for origin, count in before.items())


def _amount(target: str, left: Left, truth: Mapping[Key, Fact]) -> int:
    """Return how much dirt of a kind is left: documents, superfluous copies, or planted lines."""
    if target == "boilerplate":
        facts = ((truth[key], text) for key, text in left.texts.items())
        return sum(line in text for fact, text in facts if fact.kind == target for line in fact.planted)
    if target in ("exact", "near"):
        equal = frozenset({"clean", "exact"}) if target == "exact" else None
        return sum(count - 1 for count in _members(left.texts, truth, equal).values())
    return sum(truth[key].kind == target and _is_dirt(truth[key], text) for key, text in left.texts.items())
