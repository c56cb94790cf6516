"""Corrupt samples while they are streamed, with the kernel that writes example sets."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.configuration.config import read_mapping, to_data
from clozeline.configuration.paths import as_url
from clozeline.errors import ConfigurationError
from clozeline.pipeline.corrupt.config import NamedObjective
from clozeline.pipeline.corrupt.objectives import Objective
from clozeline.pipeline.group.groupings import recorded_grouping
from clozeline.pipeline.rows import ExampleBatch, SampleBatch
from clozeline.pipeline.shards import Manifest, ShardSet, feature_columns
from clozeline.pipeline.shards.manifest import ObjectiveRecord, canonical_sha256
from clozeline.pipeline.tokenize.tokenizers import find_vocabulary
from clozeline.registry import component_types


@dataclass(frozen=True)
class Corruption:
    """An objective and its seed, applied to every block that is loaded; variant = epoch."""

    objective: Objective
    seed: int

    @property
    def options(self) -> dict[str, Any]:
        """The objective's options as a dictionary."""
        options: dict[str, object] = to_data(self.objective.options)
        return options

    @property
    def identity(self) -> str:
        """Label of the objective, and a hash of everything that decides the examples.

        It is a part of the stream's state.
        """
        objective = self.objective
        corpus = objective.vocabulary.corpus
        # replacements are drawn by these counts
        token_counts = "" if corpus is None else hashlib.sha256(corpus.counts.tobytes()).hexdigest()
        algorithms: list[type[Any]] = [type(objective), *component_types(objective.options)]
        version = sum(int(each.VERSION) for each in algorithms)
        parts = [
            type(objective).name,
            version,
            objective.label,
            self.options,
            self.seed,
            token_counts,
        ]
        return f"{objective.label} {canonical_sha256(parts)[:16]}"

    def __call__(
        self, samples: SampleBatch, variants: NDArray[np.uint16]
    ) -> tuple[ExampleBatch, NDArray[np.uint8]]:
        """Return the examples, and per row 0 or the code of the reason why it was skipped."""
        return self.objective.corrupt(samples, variants, self.seed)

    def manifest(self, samples: Manifest) -> Manifest:
        """Return the manifest that these examples would have if they were stored."""
        objective = self.objective
        record = ObjectiveRecord(
            name=type(objective).name,
            label=objective.label,
            options=self.options,
            architecture=objective.architecture,  # type: ignore[arg-type]
            heads=objective.heads,
            frame=objective.form,
        )

        columns = tuple(feature_columns(objective.features, objective.vocabulary.size))

        # not `model_copy`, which would copy cached properties of the samples
        changes = {
            "objective": record,
            "kind": "examples",
            "columns": columns,
            "max_length": objective.longest_example(samples.max_length),
        }

        return Manifest.model_construct(**{**dict(samples), **changes})


def corruption_of(entries: Sequence[NamedObjective], shards: ShardSet) -> Corruption:
    """Return the corruption of a sample set by the only objective that reads its grouping."""
    corruptions = []
    problem = None

    for entry in entries:
        try:
            corruptions.append(_build_corruption(entry, shards))
        except ConfigurationError as error:
            problem = problem or error

    if len(corruptions) == 1:
        return corruptions[0]
    if problem is not None and not corruptions:
        raise problem
    raise ConfigurationError(
        f"data.corrupt: {len(corruptions)} of its {len(entries)} objectives read the grouping of "
        f"{shards.path}: expected one"
    )


def _build_corruption(entry: NamedObjective, shards: ShardSet) -> Corruption:
    manifest = shards.manifest

    try:
        vocabulary = find_vocabulary(shards)
    except ConfigurationError as error:
        if as_url(shards.path) is None:
            raise
        raise ConfigurationError(
            f"{error}: start in the pipeline's output folder, which has train_tokenizer/ or "
            "tokenizer/"
        ) from error

    # the grouping of the set must be the one that the objective reads
    objective = entry.build(replace(vocabulary, languages=manifest.languages))
    expected = objective.grouping.entry()
    stored = recorded_grouping(manifest.grouping).entry() if manifest.grouping else {}
    different = [key for key in {**expected, **stored} if expected.get(key) != stored.get(key)]
    if different:
        key = different[0]
        raise ConfigurationError(
            f"data.corrupt: '{objective.label}' reads samples with {key} {expected.get(key)!r}, "
            f"{shards.path} has {stored.get(key)!r}: {_remedy(entry, objective, shards.path)}"
        )

    return Corruption(objective, manifest.seed)


def _remedy(entry: NamedObjective, objective: Objective, path: Path) -> str:
    """Return what to type for a training on samples that the objective reads.

    `path`: the manifest of other samples. The recipe that made them makes the right ones, with the
    options of this objective.
    """
    groups = path.absolute().parents[2]
    grouping = objective.grouping
    folder = groups / grouping.label / "train"
    words = shlex.join([f"data.shards={folder}"])
    if isinstance(length := grouping.entry().get("length"), int):
        words += f" model.position.maximum={objective.longest_example(length)}"
    if folder.is_dir():
        return f"train with {words}"

    recipe = groups / "config.yaml"
    entries = read_mapping(recipe)["corrupt"] if recipe.is_file() else []
    wanted = entry.objective.as_dict()
    command = [f"clozeline pipeline --config {shlex.quote(str(recipe))}"]
    for number, recorded in enumerate(each["objective"] for each in entries):
        if recorded["name"] == wanted["name"]:
            changes = [key for key in wanted if wanted[key] != recorded.get(key)]
            keys = f"corrupt.{number}.objective"
            command += (shlex.quote(f"{keys}.{key}={json.dumps(wanted[key])}") for key in changes)
            return f"first make them:\n  {' '.join(command)}\nthen train with {words}"
    return f"first make them, by a pipeline with this objective in corrupt; train with {words}"
