"""Stages: passes over units, each published atomically, recorded, and skipped when it is done.

A stage is a folder of `pipeline/` with `stage.py` and `__main__.py`. `pipeline/dedup/stage.py` holds `DedupStage` and
`DedupConfig`, the class of the recipe's key `dedup`. The stage's class declares everything that the runner needs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from clozeline.errors import ClozelineError, PartialFailureError
from clozeline.pipeline.execution.plan import Plan, load_plan
from clozeline.pipeline.execution.unit_record import C, Counts, Output
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.vocabulary import Vocabulary

if TYPE_CHECKING:  # its passes are those of this module
    from clozeline.pipeline.execution.exchange import Exchange

DOCUMENTS: Final = "documents"
"""Name of what most stages take and hand over."""

K = TypeVar("K")
"""Config class of a stage."""


class Pass(ABC, Generic[C]):
    """One pass of a stage: the same work on units 0 .. units - 1, in any order, in any process. Picklable."""

    name: str
    units: int
    intermediate: ClassVar[bool] = False
    """true if it is made only for a later pass, so that it is not missed once that one is complete"""

    @abstractmethod
    def run(self, unit: int, output: Output) -> C:
        """Do one unit: write files through `output`, return its counts."""


@dataclass(frozen=True, slots=True)
class Row:
    """Row of a stage in the table of a run; output and dropped amounts of the same unit add up to the input."""

    amount_in: str  # amounts with their units, one a line
    amount_out: str = "–"
    left_out: tuple[tuple[str, Mapping[str, int]], ...] = ()
    """unit (`document`), and the number of those left out by reason; a reason without unit says its own"""
    parts: tuple[tuple[str, Row], ...] = ()  # rows of the sets of the stage by their labels, below its own


@dataclass(frozen=True)
class StageSummary:
    """Result of a stage: sums over its units, bytes of its outputs, seconds of the run that made them."""

    name: str
    counts: Counts
    row: Row
    bytes: int
    seconds: float
    units: int
    skipped: bool


@dataclass(frozen=True, slots=True)
class Consumed:
    """Amount that a stage consumed of what an earlier stage provided."""

    name: str  # the earlier stage's name of it
    amount: int  # counted where it was read
    times: int = 1  # how often the stage reads all of it


@dataclass(frozen=True, slots=True)
class ForeseenTokenizer:
    """Facts known of a tokenizer before its stage has run: size and special ids, and the version of its algorithm."""

    vocabulary: Vocabulary
    version: int


def amount(number: int, noun: str) -> str:
    """Return `1 document`, `2,000 documents` for the noun `document`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Stage(ABC, Generic[K, C]):
    """A stage of the pipeline: passes that run in sequence. `K`: its config class, `C`: its counts."""

    name: ClassVar[str]
    """name of its folder, of the recipe's key and of its folder of outputs"""
    needs: ClassVar[tuple[str, ...]] = ()
    """stages that a recipe must have too"""
    writes_documents: ClassVar[bool] = False
    """true if later stages find documents in its folder"""
    writes_tokenizer: ClassVar[bool] = False
    """true if later stages find a tokenizer in `tokenizer/` of its folder"""
    made_when_needed: ClassVar[bool] = False
    """true if a later stage that is run alone makes it too: it depends on no other stage"""
    shared: ClassVar[tuple[str, ...]] = ("seed",)
    """keys of the recipe, in addition to its own, that determine its output"""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.folder = recipe.folder(self.name)

    @cached_property
    def config(self) -> K:
        """The recipe's key of this stage."""
        config: K = self.recipe.config_of(self.name)
        return config

    @cached_property
    def plan(self) -> Plan:
        """Plan of the run, shared by all its stages."""
        return load_plan(self.recipe)

    @abstractmethod
    def version(self) -> int:
        """Return the sum of the `VERSION`s of the algorithms that decide bytes."""

    def files(self) -> Mapping[str, str]:
        """Return the hashes of further files that decide its output, by path: another content redoes the stage."""
        return {}

    @abstractmethod
    def passes(self) -> Sequence[Pass[C]]:
        """Return the passes, in order."""

    def exchanges(self) -> Sequence[Exchange]:
        """Return what its passes exchange in pieces, as far as the plan tells."""
        return ()

    @abstractmethod
    def row(self, counts: C) -> Row:
        """Return the stage's row of the table of a run, from the sums over all its units."""

    def expansion(self) -> float:
        """Return about how many bytes it writes for each byte of the largest stage before it, or of the inputs."""
        return 1.0

    def mistakes(self) -> Iterator[str]:
        """Yield what is wrong with its configuration, as far as that can be known before any stage runs."""
        yield from ()

    def foreseen_tokenizer(self) -> ForeseenTokenizer:
        """Return what is known, before any stage runs, of the tokenizer that a stage with `writes_tokenizer` gives."""
        raise NotImplementedError(f"{self.name} gives no tokenizer")

    def nothing_left(self, counts: C) -> ClozelineError:
        """Return the error of a stage that leaves no document."""
        return PartialFailureError(
            f"{self.name}: every document was rejected (reasons: the table above); check the input, or loosen the "
            "filters of the recipe"
        )

    def provides(self, counts: C) -> Mapping[str, int]:
        """Return amounts that later stages consume, by name; override it for more than documents.

        A run compares them with what later stages consume; names that only one of the two has are ignored.
        """
        return {DOCUMENTS: counts["documents_out"]} if "documents_out" in counts else {}

    def consumes(self, counts: C) -> Sequence[Consumed]:
        """Return what the stage consumed of earlier stages, counted where it was read."""
        return [Consumed(DOCUMENTS, counts["documents_in"])] if "documents_in" in counts else []

    def check(self, counts: C) -> None:
        """Raise IntegrityError where an accounting equation fails; called per unit and on the sum."""
