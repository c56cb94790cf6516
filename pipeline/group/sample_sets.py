"""The sample sets that a recipe needs: one for each distinct grouping, length and separator of its objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clozeline.configuration.config import to_plain
from clozeline.errors import ConfigurationError
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class SampleSet:
    """One sample set: how it is grouped, and the smallest row that an objective can use."""

    spec: GroupingSpec
    minimum: MinimumRow

    @property
    def label(self) -> str:
        """Name of its folder."""
        return self.spec.label


def sample_sets(groupings: Any, entries: Sequence[Any], vocabulary: Vocabulary) -> tuple[SampleSet, ...]:
    """Return the sets in order of their label, for the groupings that the recipe names or that its objectives declare.

    Raises:
        ConfigurationError: `auto` without objectives, or two groupings with one label.
    """
    objectives: list[Any] = [entry.build(vocabulary) for entry in entries]
    if groupings == "auto":
        if not objectives:
            raise ConfigurationError(
                "group: `groupings: auto` follows the recipe's objectives, but it has no `corrupt` key; "
                "add one, or name the groupings"
            )
        specs = {objective.grouping for objective in objectives}
    else:
        specs = {GroupingSpec.of(chosen.name, to_plain(chosen.options)) for chosen in groupings}
    by_label = {spec.label: spec for spec in specs}
    if len(by_label) < len(specs):
        raise ConfigurationError(f"group: two groupings share a label: {sorted(spec.label for spec in specs)}")
    sets = []
    for _, spec in sorted(by_label.items()):
        minima = [objective.minimum for objective in objectives if objective.grouping == spec] or [MinimumRow()]
        minimum = MinimumRow(min(row.tokens for row in minima), min(row.sentences for row in minima))
        sets.append(SampleSet(spec, minimum))
    return tuple(sets)
