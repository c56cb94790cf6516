"""Remove documents from every set of a run: `clozeline forget-documents OUT documents=FILE hosts=[...]`.

The units of `clean` that read them run again without them, then the later stages. The files are those of a run whose
input never had the documents; the tokenizer and the factors of `balance` stay. After a kill, the same command goes on.
Models that were trained on the sets before keep what they learned.
"""

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Annotated, Final

import pyarrow as pa

from clozeline.command import stopping_at_signals
from clozeline.configuration.config import config_class, config_digest
from clozeline.configuration.home_folder import HOME_EXPANDED
from clozeline.errors import ConfigurationError
from clozeline.files import publish_json, read_json
from clozeline.pipeline.execution.forgotten import Forgotten
from clozeline.pipeline.execution.output_lock import one_at_a_time
from clozeline.pipeline.execution.plan import PLAN_STAGE, Plan, load_plan
from clozeline.pipeline.execution.progress import Progress
from clozeline.pipeline.execution.report import write_run_report
from clozeline.pipeline.execution.runner import keep_state, run_stages
from clozeline.pipeline.execution.stage_order import all_stages, check_recipe, stages_of
from clozeline.pipeline.execution.unit_record import TEMPORARY, UnitRecord
from clozeline.pipeline.ingest.documents.files import documents_of, read_batches, read_rejects
from clozeline.pipeline.recipe import Recipe, load_recipe
from clozeline.pipeline.text.hosts import ascii_host, ascii_url, parent_domains
from clozeline.recorded_file import find_file, find_files
from clozeline.tools.command import IntermixedArguments, plural, run_tool, some_path
from clozeline.tools.settings import add_settings, split_settings

# Hashes of the files before a request, while it is carried out.
_STATE: Final = ".forgetting.json"
_UID_DIGITS: Final = 32
# Unknown documents that a message names.
_NAMED: Final = 5
_ALLOWED: Final = ("input", "executor")


@config_class
class ForgetOptions:
    """Documents to forget."""

    documents: Annotated[Path | None, HOME_EXPANDED] = None
    """file with a uid (32 hexadecimal digits) or a URL on each line"""
    hosts: list[str] = field(default_factory=list)
    """hosts whose documents are forgotten, including subdomains; also in other scripts: `bücher.example`"""
    duplicates: bool = True
    """forget the documents in their clusters of exact and near duplicates too, which hold the same text"""


class Request:
    """Uids, URLs and hosts to forget, and what of them a run has."""

    def __init__(self, options: ForgetOptions) -> None:
        lines: list[str] = []
        if options.documents is not None:
            lines = [line.strip() for line in options.documents.read_text(encoding="utf-8").splitlines()]
        lines = [line for line in lines if line]
        if not lines and not options.hosts:
            raise ConfigurationError("expected documents=FILE with a uid or URL on each line, or hosts=[...], got none")
        self.uids = {bytes.fromhex(line) for line in lines if _is_uid(line)}
        self.urls = {ascii_url(line) for line in lines if not _is_uid(line)}
        self.hosts = {ascii_host(host.strip("[]")) for host in options.hosts}
        self.digest = config_digest({"lines": sorted(lines), "hosts": sorted(self.hosts)})
        self.present: set[object] = set()

    def take(self, uid: bytes, url: str | None = None, host: str | None = None) -> bool:
        """Return whether a document is asked for, and note by what."""
        names = parent_domains(ascii_host(host or ""))
        hits = ({uid} & self.uids) | ({ascii_url(url or "")} & self.urls) | (self.hosts & set(names))
        self.present |= hits
        return bool(hits)

    def check(self, forgotten: Forgotten) -> None:
        """Raise ConfigurationError for documents and hosts that the run neither has nor has forgotten."""
        uids = {uid for uid in self.uids - self.present if not forgotten.holds(uid)}
        unknown = sorted([*(uid.hex() for uid in uids), *(self.urls - self.present), *(self.hosts - self.present)])
        if unknown:
            more = f" and {len(unknown) - _NAMED:,} more" * (len(unknown) > _NAMED)
            raise ConfigurationError(
                f"expected uids, URLs and hosts of documents of this run, got {plural(len(unknown), 'unknown one')}: "
                f"{', '.join(unknown[:_NAMED])}{more}; correct or remove them (documents that `clean` rejected are "
                "known by their uid only)"
            )


def _is_uid(line: str) -> bool:
    return len(line) == _UID_DIGITS and all(digit in "0123456789abcdefABCDEF" for digit in line)


def find_documents(recipe: Recipe, plan: Plan, request: Request) -> dict[int, set[bytes]]:
    """Return the uids of the documents and rejections of `clean` that a request names, by unit."""
    folder, units = recipe.folder(PLAN_STAGE), dict[int, set[bytes]]()
    for unit in range(len(plan.units)):
        for batch in read_batches(documents_of(folder, unit), ("uid", "url", "host")):
            rows = zip(*(batch.column(name).to_pylist() for name in ("uid", "url", "host")), strict=True)
            units.setdefault(unit, set()).update(uid for uid, url, host in rows if request.take(uid, url, host))
        rejects = find_file(folder, f"{unit:06d}", f"rejects/{unit:06d}.arrow")
        units.setdefault(unit, set()).update(row.uid for row in read_rejects(rejects) if request.take(row.uid))
    return {unit: uids for unit, uids in units.items() if uids}


def find_duplicates(recipe: Recipe, uids: Collection[bytes]) -> set[bytes]:
    """Return all documents in the clusters of some: of copies, of near duplicates, and of copies of these."""
    members = set(uids)
    for kind in ("exact", "near", "exact") if recipe.has("dedup") else ():
        folder = recipe.folder("dedup")
        paths = [path.relative_to(folder).as_posix() for path in sorted((folder / "clusters" / kind).glob("*.arrow"))]
        for file in find_files(folder, paths):
            with pa.ipc.open_file(file.buffer()) as reader:
                table = reader.read_all()
            rows = list(zip(table["cluster"].to_pylist(), table["uid"].to_pylist(), strict=True))
            clusters = {cluster for cluster, uid in rows if uid in members}
            members |= {uid for cluster, uid in rows if cluster in clusters}
    return members


def _hashes(recipe: Recipe) -> dict[str, str]:
    """Return the hashes of all data files of a run by their paths."""
    return {
        f"{name}/{relative}": facts["xxh3_128"]
        for name in stages_of(recipe)
        for path in sorted((recipe.folder(name) / "records").glob("*.json"))
        if (record := UnitRecord.read(path)) is not None
        for relative, facts in record.outputs.items()
        if not relative.startswith(f"{TEMPORARY}/")
    }


def forget_documents(recipe: Recipe, options: ForgetOptions, progress: Progress) -> tuple[int, list[str]]:
    """Carry out a request; return the number of documents that leave the run, and the files that changed.

    Raises:
        ConfigurationError: the run does not have a document or host.
    """
    output, request = recipe.output_folder, Request(options)
    with one_at_a_time(output, progress.waiting):
        plan = load_plan(recipe)
        run_stages(recipe, plan, None, progress, [])  # completes the run, and a request that was cut off
        forgotten, state = Forgotten.load(output), read_json(output / _STATE) or {}
        units = find_documents(recipe, plan, request)
        if state.get("request") != request.digest:
            request.check(forgotten)
        if units:
            uids = {uid for each in units.values() for uid in each}
            if options.duplicates and (more := find_duplicates(recipe, uids) - uids):
                request.uids |= more
                units = find_documents(recipe, plan, request)
            number = sum(map(len, units.values()))
            state = {"request": request.digest, "documents": number, "files": _hashes(recipe)}
            publish_json(output / _STATE, state)
            keep_state(recipe, plan)
            forgotten.with_documents(units).save(output)
            run_stages(recipe, plan, None, progress, [])
        before, after = state.get("files", _hashes(recipe)), _hashes(recipe)
        changed = sorted(path for path in {*before, *after} if before.get(path) != after.get(path))
        write_run_report(output, stages_of(recipe))
        (output / _STATE).unlink(missing_ok=True)
    return state.get("documents", 0), changed


def _recipe_of(output: Path, words: Sequence[str]) -> Recipe:
    """Return the recipe that a run was last started with."""
    configs = [path for name in all_stages() if (path := output / name / "config.yaml").is_file()]
    if not configs:
        raise ConfigurationError(f"{output}: expected the output of a pipeline, got no stage with config.yaml")
    for word in words:
        if word.partition("=")[0].partition(".")[0] not in _ALLOWED:
            raise ConfigurationError(f"{word}: expected documents=, hosts=, duplicates=, input= or executor.KEY=")
    newest = max(configs, key=lambda path: path.stat().st_mtime_ns)
    recipe = load_recipe(newest, [f"output={output}", "extend=false", "rebalance=false", *words])
    check_recipe(recipe)
    return recipe


def _lines(output: Path, documents: int, changed: Sequence[str]) -> Iterator[str]:
    yield f"{output}: {plural(documents, 'document')} forgotten, {plural(len(changed), 'file')} changed"
    yield from (f"  {path}" for path in changed)


def _run(options: argparse.Namespace) -> None:
    chosen, words = split_settings(ForgetOptions, options.overrides)
    recipe = _recipe_of(options.output, words)
    with stopping_at_signals():
        documents, changed = forget_documents(recipe, chosen, Progress())
    sys.stdout.write("".join(f"{line}\n" for line in _lines(options.output, documents, changed)))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = IntermixedArguments(__doc__)
    parser.add_argument("output", type=some_path, metavar="OUT", help="output folder of a pipeline")
    add_settings(parser, ForgetOptions, help_text="settings, listed below, and `input` or `executor.KEY` of the recipe")
    return run_tool(parser, arguments, _run)


if __name__ == "__main__":
    raise SystemExit(main())
