"""Rebuild the objective of an example set from its manifest."""

from clozeline.pipeline.corrupt.objectives import Objective, build_objective
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.pipeline.vocabulary import Vocabulary


def rebuild_objective(facts: ObjectiveFacts, vocabulary: Vocabulary) -> Objective:
    """Return the objective of a manifest."""
    return build_objective({"name": facts.name, **facts.options}, vocabulary, facts.label)
