"""The stage `clean`: read input files, extract text, identify languages, filter documents.

Every rejected document has a reason.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from shlex import quote
from typing import Final

from clozeline.configuration.config import config_digest
from clozeline.errors import ConfigurationError, plural
from clozeline.pipeline.clean.config import CleanConfig, SourceConfig
from clozeline.pipeline.clean.exclusion import Exclusion
from clozeline.pipeline.clean.filters import list_data_files
from clozeline.pipeline.clean.languages import UNDECIDED, find_labels
from clozeline.pipeline.clean.ruling_keys import find_ruling_keys
from clozeline.pipeline.clean.unit import CleanUnit, SourceSteps
from clozeline.pipeline.clean.unit_counts import CleanCounts
from clozeline.pipeline.execution.arguments import describe_algorithms
from clozeline.pipeline.execution.equations import EACH, Equation, StageRow
from clozeline.pipeline.execution.rewritten_documents import REWRITE_EQUATIONS
from clozeline.pipeline.execution.stages import Pass, Stage
from clozeline.pipeline.ingest.formats.archives import ARCHIVES
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.registries import READERS
from clozeline.pipeline.text.language_codes import suggest_codes
from clozeline.registry import Component, NamesAlgorithms

_MOST_SHOWN_LINES: Final = 5
"""Maximum lines of `exclude` in a message."""

_MEMORY_PER_CHARACTER: Final = 23.0
"""Bytes of memory for each character of a text of 200 million characters."""


class CleanStage(Stage[CleanConfig, CleanCounts]):
    """Cleans documents in one pass over the units of the plan."""

    name = "clean"
    in_heldout = True
    cpu_seconds_per_mb = 0.48
    writes_documents = True
    equations = (
        *REWRITE_EQUATIONS,
        Equation(
            ["records_in"], ["malformed", "excluded", ("ignored", EACH), "documents_in"], "record"
        ),
        Equation(
            ["bytes_in"],
            ["malformed_bytes", "bytes_lost", "without_records"],
            "byte",
            is_partial=True,
        ),
    )

    def __init__(self, recipe: Recipe) -> None:
        super().__init__(recipe)
        labels = {entry.source for entry in recipe.input}
        for label in self.config.sources:
            if labels and label not in labels:
                known = ", ".join(sorted(labels))
                raise ConfigurationError(
                    f"clean.sources.{label}: no input has this `source` label; the inputs have: "
                    f"{known}"
                )

    @property
    def memory(self) -> tuple[float, str]:
        text = _MEMORY_PER_CHARACTER * self.recipe.limits.text_chars
        return super().memory[0] + text, "limits.text_chars"

    def validate(self) -> Iterator[str]:
        """Yield languages that the identifier does not know.

        Raises:
            ConfigurationError: a file cannot be used.
        """
        _ = self._exclusion  # an unreadable file is an error before the work starts
        sources: dict[str, CleanConfig | SourceConfig] = {
            f"clean.sources.{name}": source for name, source in self.config.sources.items()
        }
        for key, source in {"clean": self.config, **sources}.items():
            language = source.language
            if isinstance(language, Component) and (
                language.options.keep or list_data_files(language.options)
            ):
                known = language.build().languages() | {UNDECIDED}
                for code in sorted(set(language.options.keep)):
                    if not find_labels(code, known):
                        yield (
                            f"{key}.language.keep: {language.name} does not know the language "
                            f"'{code}'; {suggest_codes(code, known)}"
                        )

            # an unusable model, list or class is an error before the work starts
            for step in (*(source.filters or ()), source.extractor):
                if step is not None and (
                    list_data_files(step.options) or isinstance(step.options, NamesAlgorithms)
                ):
                    step.build()

    def passes(self) -> Sequence[Pass[CleanCounts]]:
        """Return one pass over the units."""
        recipe = self.recipe
        names = self.plan.names
        steps: dict[tuple[str, ...], Mapping[str, SourceSteps]] = {}
        described = self._describe_inputs()
        identities = {each["source"]: each["identity"] for each in self.plan.inputs}
        units: dict[str, CleanUnit] = {}

        for number, (name, ranges) in enumerate(zip(names, self.plan.units, strict=True)):
            groups = tuple(sorted({each.source_group for each in ranges}))
            content = [
                f"{each.source} {each.source_group} {each.start}-{each.end} {of_input}"
                for each in ranges
                for of_input in [described[each.source]]
            ]
            units[name] = CleanUnit(
                name,
                hashlib.sha256("\n".join(content).encode()).hexdigest(),
                steps.setdefault(groups, {each: self._source_steps[each] for each in groups}),
                recipe.corpus,
                recipe.seed,
                recipe.limits,
                self.config.keep_text,
                recipe.on_error,
                None
                if recipe.limit is None
                else recipe.limit // len(names) + (number < recipe.limit % len(names)),
                self._exclusion,
                ranges,
                [identities[each.source] for each in ranges],
            )

        return [Pass("main", units)]

    def _describe_inputs(self) -> Mapping[str, str]:
        """Return a digest of the options and the version of the reader of each input, by source."""

        @cache
        def describe_reader(name: str) -> str:
            # a member of an archive may need any reader
            readers = READERS.classes() if name in ARCHIVES else {name: READERS.load_class(name)}
            return config_digest([name, describe_algorithms(readers.values())])

        return {
            each["source"]: f"{config_digest(each['options'])} {describe_reader(each['reader'])}"
            for each in self.plan.inputs
        }

    @cached_property
    def _exclusion(self) -> Exclusion | None:
        return None if self.config.exclude is None else Exclusion.open(self.config.exclude)

    @cached_property
    def _source_steps(self) -> dict[str, SourceSteps]:
        config = self.config
        return {
            label: SourceSteps(
                **vars(config.of_source(label)),
                pair_filters=config.sources.get(label, SourceConfig()).filters or [],
            )
            for label in {planned.source_group for planned in self.plan.ranges}
        }

    def row(self, counts: CleanCounts) -> StageRow:
        without = _prefix("without a record in", counts.get("without_records", {}))
        lost = _prefix("lost by damage in", counts.get("bytes_lost", {}))
        skipped = _prefix("skipped by the name:", self.plan.skipped)

        noticed = (
            ("", {**counts["notes"], **counts["ignored"], **counts.get("repairs", {})}),
            ("", _prefix("characters changed:", counts.get("normalized", {}))),
            ("byte", {**lost, **without, **counts.get("malformed_bytes", {})}),
            *self._list_unmatched(counts),
        )

        documents = counts["documents_in"]
        records = counts.get("records_in", counts["documents_in"])
        amounts = [plural(records, "record")] * (records != documents) + [
            plural(documents, "document")
        ]
        row = StageRow.of(
            counts, self.equations, "\n".join(amounts), plural(counts["documents_out"], "document")
        )
        return replace(
            row,
            dropped=(
                ("file", skipped),
                *(group for group in row.dropped if group[0] != "byte"),
                *noticed,
            ),
        )

    def ruling_key(self, reason: str) -> str:
        return find_ruling_keys(self.config).get(reason, self.name)

    def explain_loss(self, row: StageRow) -> str:
        loss = super().explain_loss(row)
        return loss and f"{loss}; see `clozeline filter-report {quote(str(self.recipe.output))}`"

    def _list_unmatched(self, counts: CleanCounts) -> list[tuple[str, dict[str, int]]]:
        """Return how many lines of `exclude` match nothing in the run, and the first such lines."""
        if self._exclusion is None:
            return []
        unmatched = list(self._exclusion.list_unmatched(counts.get("excluded_by", {})))
        first_lines = dict.fromkeys(unmatched[:_MOST_SHOWN_LINES], 1)
        return [
            ("", {"lines of exclude, which match nothing": len(unmatched)}),
            ("unmatched line", first_lines),
        ]


def _prefix(words: str, counts: Mapping[str, int]) -> dict[str, int]:
    return {f"{words} {name}": count for name, count in counts.items()}
