"""Say where the sets of a run come from: their parents, versions, slowest units, and the way back to documents."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.pipeline.execution.stage_report import StageFacts
from clozeline.pipeline.shards import Manifest
from clozeline.report.axis_units import duration, size_text
from clozeline.report.html_page import collapsible, table

# Inputs that are nodes of their own; more of them are grouped by source, and sources beyond these in one node.
_NODES: Final = 6
_DIGITS: Final = 8
"""digits of a checksum on the page"""
Node = tuple[str, str, tuple[str, ...]]
"""Name of an input, stage or set, what it holds, and the names of what it was made from."""

Manifests = Mapping[str, Manifest]
"""Manifests of a run by the path of their set below its output, such as `corrupt/masked_lm/train`."""


def read_manifests(output: Path, stages: Sequence[StageFacts]) -> Manifests:
    """Return the manifests of all sets of a run, in the order of its stages."""
    paths = [path for stage in stages for path in sorted(stage.folder.rglob("manifest.json"))]
    return {path.parent.relative_to(output).as_posix(): Manifest.load(path) for path in paths}


def list_provenance(plan: Mapping[str, Any], stages: Sequence[StageFacts], manifests: Manifests) -> str:
    """Return the table of inputs, stages and sets, each with what it was made from."""
    nodes = list(_iter_inputs(plan))
    inputs = tuple(name for name, *_ in nodes)
    last, tokenizer = inputs, tuple[str, ...]()  # what holds the documents, and the tokenizer
    by_digest = {manifest.digest: name for name, manifest in manifests.items()}
    for stage in stages:
        own = {name: manifest for name, manifest in manifests.items() if name.split("/")[0] == stage.name}
        parents = tuple(dict.fromkeys((*last, *tokenizer)))
        if stage.documents.is_dir():
            nodes.append((stage.name, f"{stage.counts['documents_out']:,} documents", last))
            last = (stage.name,)
        elif (stage.folder / "tokenizer").is_dir():
            nodes.append((stage.name, "tokenizer", last if stage.name == "train_tokenizer" else ()))
            tokenizer = (stage.name,)
        elif not own:
            nodes.append((stage.name, "–", last))
        for name, manifest in own.items():
            known = [by_digest.get(parent.digest, parent.name) for parent in manifest.parents]
            known = [*(inputs if stage.name == "tasks" else ()), *known]
            label = f"{manifest.totals.samples:,} rows · {manifest.checksum[:_DIGITS]}"
            nodes.append((name, label, tuple(known) if stage.name != "encode" else parents))
        if stage.name == "encode":
            last, tokenizer = tuple(own), ()
    rows = [(name, label, ", ".join(known) or "outside") for name, label, known in nodes]
    return f"<h3>From inputs to sets</h3>{table(['', 'holds', 'made from'], rows)}" if rows else ""


def _iter_inputs(plan: Mapping[str, Any]) -> Iterator[Node]:
    """Yield a node for each input file; where there are more than six, for each source of inputs."""
    files = plan["inputs"]
    if len(files) <= _NODES:
        for file in files:
            yield file["source"], size_text(file["bytes"]), ()
        return
    source_of = {unit["source"]: unit["source_group"] for unit in plan.get("units", ())}
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for file in files:
        source = source_of.get(file["source"], "inputs")
        sizes[source] += file["bytes"]
        counts[source] += 1
    largest = sorted(sizes, key=lambda source: (-sizes[source], source))
    for source in largest[:_NODES]:
        yield f"input {source}", f"{counts[source]:,} files · {size_text(sizes[source])}", ()
    if others := largest[_NODES:]:
        size, count = sum(sizes[source] for source in others), sum(counts[source] for source in others)
        yield f"{len(others):,} other sources", f"{count:,} files · {size_text(size)}", ()


def iter_slowest(stages: Sequence[StageFacts]) -> Iterator[str]:
    """Yield the table of the slowest units of each stage."""
    rows = [
        (stage.name, unit["pass_name"], str(unit["unit"]), "" if unit["documents"] is None else unit["documents"],
         duration(unit["seconds"]))
        for stage in stages for unit in stage.slowest
    ]  # fmt: skip
    if rows:
        yield f"<h3>Slowest units</h3>{table(['stage', 'pass', 'unit', 'documents', 'time'], rows)}"


def iter_deciders(stages: Sequence[StageFacts]) -> Iterator[str]:
    """Yield what decided each stage: versions of algorithms, hashes of files, and packages where they differ."""
    algorithms = [
        (stage.name, name, str(version))
        for stage in stages for name, version in stage.deciders.get("algorithms", {}).items()
    ]  # fmt: skip
    files = [(stage.name, path, digest) for stage in stages for path, digest in stage.deciders.get("files", {}).items()]
    packages: dict[tuple[str, str], list[str]] = {}
    for stage in stages:
        for name, version in stage.deciders.get("packages", {}).items():
            packages.setdefault((name, version), []).append(stage.name)
    if algorithms:
        yield collapsible("Versions of algorithms", table(["stage", "algorithm", "version"], algorithms))
    if files:
        yield collapsible("Models and lists", table(["stage", "file", "hash"], files))
    if packages:
        rows = [(name, version, ", ".join(used)) for (name, version), used in sorted(packages.items())]
        yield collapsible("Packages", table(["package", "version", "stages"], rows))


def iter_fertility(stages: Sequence[StageFacts]) -> Iterator[str]:
    """Yield tokens per word and characters per token by language, where a tokenizer ran."""
    for counts in (stage.counts for stage in stages if "text_by_language" in stage.counts):
        texts: Mapping[str, Mapping[str, int]] = counts["text_by_language"]
        tokens = counts["tokens_by_language"]
        rows = [
            (language, tokens[language], f"{tokens[language] / max(1, text['words']):.2f}",
             f"{text['characters'] / max(1, tokens[language]):.2f}")
            for language, text in sorted(texts.items(), key=lambda item: (-tokens[item[0]], item[0]))
        ]  # fmt: skip
        header = ["language", "tokens", "tokens a word", "characters a token"]
        yield f"<h3>Tokens a word, by language</h3>{table(header, rows)}"


def way_back(manifests: Manifests) -> str:
    """Return how to get from a loss to documents, where the run made rows to train on."""
    if not any(name.startswith(("corrupt/", "group/", "tasks/")) for name in manifests):
        return ""
    commands = [
        ("the rows of a training step, with their documents", "clozeline explain-batch --run RUN --step N"),
        ("where a row or a document is stored", "clozeline where-is MANIFEST --uid UID"),
        ("what each filter dropped, and texts next to its threshold", "clozeline filter-report OUTPUT"),
    ]
    return f"<h3>From a loss back to documents</h3>{table(['to see', 'run'], commands)}"
