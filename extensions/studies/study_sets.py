"""Make the sets of a study: by one pipeline for all variants, or by one for each."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from clozeline.configuration.config import read_composed
from clozeline.configuration.overrides import merge, parse_yaml
from clozeline.errors import ConfigurationError
from clozeline.extensions.studies.study_plan import (
    Variant,
    find_study_file,
    have_own_pipelines,
)
from clozeline.files import publish_text, read_json
from clozeline.pipeline.execution.stages import document_stages, last_documents
from clozeline.pipeline.ingest.documents.files import read_all_documents
from clozeline.pipeline.recipe import Recipe
from clozeline.pipeline.shards.store import as_url
from clozeline.tools.start.multirun.runner import run_step, write_pages

_MEASURE_PREFIX: Final = "heldout-"
"""Beginning of the name of a set that a measure is computed on."""
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
    return PreparedDocuments(
        len(sizes), sum(sizes), sum(float(report.get("seconds", 0)) for report in reports)
    )


def parse_named_files(words: Sequence[str]) -> dict[str, str]:
    """Return files by name, from words NAME=FILES; ConfigurationError for another form."""
    pairs = [word.partition("=") for word in words]
    for word, (name, _, files) in zip(words, pairs, strict=True):
        if not (name and files):
            raise ConfigurationError(f"heldout: expected NAME=FILES, got {word!r}")
    return {name: files for name, _, files in pairs}


def make_all_sets(
    folder: Path,
    output: Path,
    variants: Mapping[str, Variant],
    input_files: str | None,
    heldout: Mapping[str, str],
) -> dict[str, Path]:
    """Make the sets of a study.

    Return the folder of sets of each variant, and of each measure with separate files.

    Without `input_files`, the input is the demo's pages.

    Raises:
        ConfigurationError: if variants have pipelines and there is not one without a base, or no
            held-out files; or if held-out files are given for variants that share one pipeline, or
            for a measure that no variant has.
    """
    measures = list(
        dict.fromkeys(measure for variant in variants.values() for measure in variant.measures)
    )
    has_variant_sets = have_own_pipelines(variants)
    if has_variant_sets and measures and measures[0] not in heldout:
        raise ConfigurationError(
            f"heldout: the variants of {folder.name} have different pipelines, and are compared on "
            f"files that none of them reads: give heldout={measures[0]}=FILES"
        )

    if unknown := sorted(heldout.keys() - (measures if has_variant_sets else ())):
        expected = (
            f"one of {', '.join(measures)}"
            if has_variant_sets
            else "none, as all variants share one pipeline"
        )
        raise ConfigurationError(f"heldout: expected {expected}, got {unknown[0]}")

    files = _absolute(input_files or _pages(output))
    if has_variant_sets:
        return _make_each(folder, output / "shards", variants, files, heldout)
    words = [f"input={files}", f"output={output / 'shards'}"]
    run_step("clozeline", "pipeline", "--config", find_study_file(folder), *words, accelerator=None)
    return dict.fromkeys(variants, output / "shards" / "corrupt")


def find_measured_sets(variant: Variant, folders: Mapping[str, Path]) -> dict[str, Path] | None:
    """Return the held-out set of each measure with separate files; None without any."""
    measured = (
        (measure, name, folders.get(_MEASURE_PREFIX + measure))
        for measure, name in variant.measures.items()
    )
    return {
        measure: folder / name / "train" for measure, name, folder in measured if folder is not None
    } or None


def _pages(output: Path) -> str:
    write_pages(warc := output / "pydoc.warc.gz")
    return str(warc)


def _make_each(
    folder: Path,
    output: Path,
    variants: Mapping[str, Variant],
    files: str,
    heldout: Mapping[str, str],
) -> dict[str, Path]:
    """Run the pipeline of each variant, and one for each measure.

    All share the tokenizer of the variant without a base, so that nats per token are comparable; a
    variant with a `train_tokenizer` has its own, and is compared by the bits per byte of texts.
    Equal pipelines run once.
    """
    roots = [name for name, variant in variants.items() if variant.base is None]
    if len(roots) != 1:
        raise ConfigurationError(
            f"{folder}: expected one variant without a base, got {', '.join(roots) or 'none'}"
        )

    recipe = read_composed(Recipe, find_study_file(folder))
    tokenizer = {"path": str(output / roots[0] / "train_tokenizer" / "tokenizer")}
    same_tokenizer = merge(Recipe, recipe, {"train_tokenizer": None, "tokenizer": tokenizer})
    folders: dict[str, Path] = {}
    made: dict[str, Path] = {}

    for name in sorted(variants, key=lambda name: name != roots[0]):  # the root gives the tokenizer
        variant_pipeline = variants[name].pipeline or {}
        keys = merge(
            Recipe,
            recipe if name in roots or "train_tokenizer" in variant_pipeline else same_tokenizer,
            variant_pipeline,
        )
        chosen = _choose_sources(files, variants[name].sources)
        changes = json.dumps([variant_pipeline, chosen], sort_keys=True)
        folders[name] = made[changes] = made.get(changes) or _run(output, name, keys, chosen)

    for measure, measure_files in heldout.items():
        dropping = dict.fromkeys(("dedup", "decontaminate", "balance") & recipe.keys())
        keys = merge(Recipe, same_tokenizer, _UNCHANGED_TEXT_KEYS | dropping)
        folders[_MEASURE_PREFIX + measure] = _run(
            output, _MEASURE_PREFIX + measure, keys, _absolute(measure_files)
        )

    return folders


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


def _run(output: Path, name: str, recipe: Mapping[str, Any], files: str) -> Path:
    path = output / "recipes" / f"{name}.yaml"
    publish_text(path, yaml.safe_dump(dict(recipe), sort_keys=False))
    run_step(
        "clozeline",
        "pipeline",
        "--config",
        path,
        f"input={files}",
        f"output={output / name}",
        accelerator=None,
    )

    return output / name / "corrupt"


def _absolute(files: str) -> str:
    """Return files of a command line with absolute paths, for a pipeline in another folder.

    They are a path or a list of entries.
    """
    if not files.startswith(("[", "{")):
        return _absolute_path(files)
    try:
        return json.dumps(_absolute_entries(parse_yaml(files)))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"input={files}: cannot be read as YAML: {error}") from error


def _absolute_entries(entry: object) -> object:
    """Return an entry, or a list of them, with absolute paths."""
    if isinstance(entry, list):
        return [_absolute_entries(each) for each in entry]
    if isinstance(entry, Mapping):
        return {**entry, "path": _absolute_entries(entry["path"])} if "path" in entry else entry
    return _absolute_path(str(entry))


def _absolute_path(file: str) -> str:
    return as_url(file) or str(Path(file).expanduser().absolute())
