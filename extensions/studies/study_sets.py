"""Make the sets of a study: by one pipeline for all variants, or by one for each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clozeline.configuration.config import read_composed
from clozeline.configuration.overrides import merge, parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.extensions.studies.study_plan import StudySets, Variant, find_study_file
from clozeline.files import publish_yaml, read_json
from clozeline.pipeline import all_stages
from clozeline.pipeline.execution.stages import document_stages, last_documents
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.recipe import Recipe, load_stage_part
from clozeline.tools.start.multirun.runner import PlannedCommand, write_pages

_UNCHANGED_TEXT_KEYS: Final = {
    "clean": {"language": None, "filters": []},
    "heldout": {"fraction": 0},
}
"""Keys of a recipe that keep every text of a held-out set as it is."""


@dataclass(frozen=True)
class PreparedDocuments:
    """The documents that a pipeline leaves, and the seconds that it took until then."""

    count: int
    characters: int
    seconds: float


def count_documents(output: Path) -> PreparedDocuments:
    """Return the number of documents that a finished pipeline keeps.

    Also the seconds of its stages up to them.
    """
    sizes = [len(document.text) for document in read_all_documents(last_documents(output))]
    reports = (read_json(output / name / "report.json") or {} for name in document_stages())
    seconds = sum(float(report.get("seconds", 0)) for report in reports)
    return PreparedDocuments(len(sizes), sum(sizes), seconds)


def parse_named_files(key: str, words: Sequence[str]) -> dict[str, str]:
    """Return the files of a key by name, from words NAME=FILES."""
    pairs = [word.partition("=") for word in words]
    for name, _, files in pairs:
        if not (name and files):
            raise ConfigurationError(f"{key}: expected NAME=FILES, got {name!r}")
    return {name: files for name, _, files in pairs}


def make_all_sets(
    folder: Path,
    output: Path,
    variants: Mapping[str, Variant],
    input_files: str | None,
    heldout: Mapping[str, str],
) -> StudySets:
    """Make the sets of a study, by a pipeline for each variant that changes it.

    All share the tokenizer of the first variant, so that nats per token are comparable; one with a
    `train_tokenizer` has its own, and is compared by the bits per byte of texts. Without
    `input_files`, the input is the demo's pages.

    Raises:
        ConfigurationError: variants have different pipelines and no held-out files, or a measure
            of `heldout` is none of theirs.
    """
    measures = {measure: None for variant in variants.values() for measure in variant.measures}
    differ = len({_changes(variant) for variant in variants.values()}) > 1
    if unknown := sorted(heldout.keys() - measures):
        raise ConfigurationError(
            f"heldout: expected one of {', '.join(measures)}, got {unknown[0]}"
        )
    if differ and measures and not heldout:
        raise ConfigurationError(
            f"heldout: the variants of {folder.name} have different pipelines, and are compared on "
            f"files that none of them reads: give heldout={next(iter(measures))}=FILES"
        )

    if input_files is None:
        write_pages(output / "pydoc.warc.gz")
    files = input_files or str(output / "pydoc.warc.gz")
    recipe = read_composed(Recipe, find_study_file(folder))
    shards = output / "shards"
    made: dict[str, Path] = {}
    shared = recipe  # until the first pipeline has made the tokenizer

    def make(name: str, keys: Mapping[str, Any], chosen: str) -> Path:
        path = shards / name if differ or heldout else shards
        file = output / "recipes" / f"{name}.yaml"
        publish_yaml(file, keys)
        words = [f"input={chosen}", f"output={path}"]
        PlannedCommand(["pipeline", "--config", file, *words], {}).execute()
        return path / "corrupt"

    for name, variant in variants.items():
        changes = _changes(variant)
        if changes not in made:
            pipeline = variant.pipeline or {}
            keys = merge(Recipe, recipe if "train_tokenizer" in pipeline else shared, pipeline)
            made[changes] = make(name, keys, _choose_sources(files, variant.sources))
        if shared is recipe:
            tokenizer = {"path": str(made[changes].parent / "train_tokenizer" / "tokenizer")}
            shared = merge(Recipe, recipe, {"train_tokenizer": None, "tokenizer": tokenizer})

    stages = recipe.keys() & {*all_stages()}
    dropped = {name: None for name in stages if not load_stage_part(name, "Stage").in_heldout}
    unchanged = merge(Recipe, shared, _UNCHANGED_TEXT_KEYS | dropped)
    return StudySets(
        {name: made[_changes(variant)] for name, variant in variants.items()},
        {name: make(f"heldout-{name}", unchanged, chosen) for name, chosen in heldout.items()},
    )


def _changes(variant: Variant) -> str:
    """Return what distinguishes the pipeline of a variant: equal ones run once."""
    return json.dumps([variant.pipeline or {}, variant.sources], sort_keys=True)


def _choose_sources(files: str, sources: Sequence[str] | None) -> str:
    """Return the entries of an input whose `source` is among these.

    Raises:
        ConfigurationError: an input that names no such source.
    """
    if sources is None:
        return files
    entries = parse_yaml(files) if files.startswith("[") else []
    chosen = [
        entry for entry in entries if isinstance(entry, Mapping) and entry.get("source") in sources
    ]
    if not chosen:
        raise ConfigurationError(
            f"input: expected files of the source {' or '.join(sources)}, such as "
            f"input='[{{path: texts.jsonl, source: {sources[0]}}}]', got {files}"
        )
    return json.dumps(chosen)
