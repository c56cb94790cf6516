"""The later passes of encode: assign codes, merge runs into token shards, write the manifest."""

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from clozeline.errors import ConfigurationError, IntegrityError, share_text
from clozeline.pipeline.execution.contributions import ParentFile
from clozeline.pipeline.execution.shuffle import Pieces
from clozeline.pipeline.execution.stages import Unit
from clozeline.pipeline.execution.unit_inputs import UnitInputs
from clozeline.pipeline.execution.unit_record import Output, require_written
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import WORD_STARTS, Ragged, RowBatch
from clozeline.pipeline.shards import SetWriter, auto_block_rows
from clozeline.pipeline.shards.column_set import (
    DOCUMENTS_SCHEMA,
    EXTRA_COLUMN,
    identities,
    token_columns,
)
from clozeline.pipeline.shards.layout import is_heldout
from clozeline.pipeline.shards.tables import write_table
from clozeline.pipeline.tokenize.encode.sorted_runs import read_range, run_schema, sort_runs
from clozeline.pipeline.tokenize.encode.tokenize_documents import EncodeCounts
from clozeline.pipeline.tokenize.stage_files import open_tokenizer, open_vocabulary
from clozeline.pipeline.tokenize.tokenizers import tokenizer_metadata
from clozeline.pipeline.tokenize.tokenizers._tokenizer import VOCABULARY_FILE
from clozeline.pipeline.tokenize.unknown_text import UnknownShares
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.recorded_file import RecordedFile

MERGE_VERSION: Final = 3
"""Raised when the same documents give other shards or counts."""
_LOG: Final = logging.getLogger(__name__)
_MOST_LANGUAGES: Final = 255
_CODES_FILE: Final = "tmp/codes.json"


@dataclass(frozen=True)
class AssignCodes(Unit[EncodeCounts]):
    """Compute codes and block size for all shards, from the counts of the first pass.

    The code of a language or a source group is its index in the sorted list, so it depends only on
    the set.
    """

    id_bytes: int
    max_unknown: float = 1.0
    words: bool = False
    """whether the configuration names word segmenters"""

    def run(self, inputs: UnitInputs, output: Output) -> EncodeCounts:
        """Write the codes; warn if more than 1 % of the text is unknown.

        Raises:
            ConfigurationError: there are no documents, more than 255 languages, or more unknown
                text than `max_unknown`.
        """
        counts: EncodeCounts = inputs.sum_counts("encode", "tokenize")

        if not counts.get("documents_out"):
            raise ConfigurationError(
                "there are no documents to encode: all were rejected; the reports of the stages "
                "say why"
            )

        self._require_known_text(UnknownShares.of(counts))
        languages = sorted({*counts["tokens_by_language"], *counts.get("target_languages", {})})
        if len(languages) > _MOST_LANGUAGES:
            raise ConfigurationError(
                f"{len(languages)} languages: a token set has at most {_MOST_LANGUAGES}; keep "
                "fewer by clean.language"
            )

        # the mean bytes of a row decide the rows of a block
        sentences = counts["sentences"]["found"] - counts["sentences"]["merged"]
        tokens = counts["tokens"] + counts.get("target_tokens", 0)
        starts = sentences + counts.get("words", 0)
        row_bytes = 20 + (self.id_bytes * tokens + 4 * starts) / counts["documents_out"]
        codes = {
            "languages": languages,
            "source_groups": sorted(counts["tokens_by_source"]),
            "block_rows": auto_block_rows(row_bytes),
            "pairs": counts.get("target_tokens", 0) > 0,
            **({"words": True} if self.words else {}),
        }
        with output.file(_CODES_FILE) as path:
            path.write_text(json.dumps(codes, sort_keys=True), encoding="utf-8")
        return {}

    def _require_known_text(self, unknown: UnknownShares) -> None:
        """Warn of unknown text; raise ConfigurationError if it exceeds `max_unknown`."""
        if unknown.share > self.max_unknown:
            raise ConfigurationError(
                f"{share_text(unknown.share)} of the characters would become unknown tokens, the "
                f"limit is {share_text(self.max_unknown)}\n{unknown.message()}\n  or raise "
                "encode.max_unknown, up to 1, to encode these texts nevertheless"
            )
        if unknown.is_noticed():
            _LOG.warning("encode: %s", unknown.message())


def _read_codes(inputs: UnitInputs) -> Any:
    return json.loads(inputs.file("encode", "codes", "000000", _CODES_FILE).text())


def _merged_file(inputs: UnitInputs, shard: int, name: str) -> RecordedFile:
    return inputs.file("encode", "merge", f"{shard:06d}", name)


def _counts_file(shard: int) -> str:
    return f"tmp/counts/{shard:06d}.npy"


def _texts_file(shard: int) -> str:
    return f"tmp/texts/{shard:06d}.u64"


@dataclass(frozen=True)
class MergeRuns(Unit[EncodeCounts]):
    """Merge the runs into `shard-*.arrow` and `documents-*.arrow` of one shard."""

    VERSION = MERGE_VERSION
    shard: int
    shards: int
    runs: Pieces
    heldout: float
    seed: int
    extra: Sequence[str] = ()

    def run(self, inputs: UnitInputs, output: Output) -> EncodeCounts:
        """Write the shard sorted by (order, uid), its documents, and what the manifest sums up.

        Besides the runs, 8 MiB of rows are in memory.
        """
        vocabulary = open_vocabulary(inputs)
        codes = _read_codes(inputs)
        unit = self.shard
        schema = run_schema(vocabulary.id_dtype, words="words" in codes, extra=bool(self.extra))
        pieces = self.runs.read(inputs, "encode", name_shard(unit, self.shards))
        batches = read_range(pieces, schema)
        described = DOCUMENTS_SCHEMA.append(EXTRA_COLUMN) if self.extra else DOCUMENTS_SCHEMA
        documents: list[pa.Table] = []
        hashes: list[NDArray[np.uint64]] = []
        totals = np.zeros(vocabulary.size, np.uint64)

        def read() -> Iterator[RowBatch]:
            for table in sort_runs(batches, schema, unit, self.shards):
                self._require_distinct(table)
                rows = _rows(table, codes)
                lengths = pa.array(rows.columns["token_ids"].lengths, pa.uint32())
                documents.append(table.append_column("tokens", lengths).select(described.names))
                hashes.append(self._count_ids(rows, totals))
                yield rows

        _set_writer(vocabulary, codes, self.shards).write_shard(output, unit, read())
        empty = described.empty_table()
        listed = pa.concat_tables([empty, *(each.cast(described) for each in documents)])
        with output.file(f"documents-{unit:05d}-of-{self.shards:05d}.arrow") as path:
            write_table(path, listed.combine_chunks(), described)
        with output.file(_texts_file(unit)) as path:
            np.concatenate([np.empty(0, np.uint64), *hashes]).tofile(path)
        with output.file(_counts_file(unit)) as path, path.open("wb") as sink:
            np.save(sink, totals)

        # the documents that have each declared column
        if not self.extra:
            return {}
        declared = listed.column("extra").drop_null().to_pylist()
        found = Counter(key for content in declared for key in json.loads(content))
        return {"with_extra": {key: found[key] for key in self.extra}}

    def _require_distinct(self, table: pa.Table) -> None:
        uids = identities(table.column("uid"))
        repeated = np.flatnonzero((uids[1:] == uids[:-1]).all(axis=1))
        if len(repeated):
            uid = uids[repeated[0]].tobytes().hex()
            raise IntegrityError(
                f"shard {self.shard}: at least {len(repeated)} documents have the same uid as "
                f"another one, first {uid}: two inputs share source name and position: give them "
                "different `source` labels; or exported documents were read twice: name each "
                "export once"
            )

    def _count_ids(self, rows: RowBatch, totals: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Add up the token ids of training documents; return a hash of the tokens of each document.

        The lowest bit of a hash says that the document is held out.
        """
        tokens = rows.columns["token_ids"]
        targets = rows.columns.get(
            "target_ids", Ragged(tokens.values[:0], np.zeros(len(rows) + 1, np.int64))
        )
        held_out = np.array(
            [
                is_heldout(uid.tobytes(), self.heldout, self.seed)
                for uid in rows.fixed["document_uid"]
            ],
            dtype=np.bool_,
        )
        for ids in (tokens, targets):
            training = ids.values[~np.repeat(held_out, ids.lengths)]
            totals += np.bincount(training, minlength=len(totals)).astype(np.uint64)

        sides = (tokens[row].tobytes() + targets[row].tobytes() for row in range(len(rows)))
        hashes = np.array([xxh3_64_intdigest(ids) >> 1 << 1 for ids in sides], np.uint64)
        return hashes | held_out


def _set_writer(vocabulary: Vocabulary, codes: Mapping[str, Any], shards: int) -> SetWriter:
    return SetWriter(
        path="",
        shards=shards,
        columns=token_columns(vocabulary.size, pairs=codes["pairs"], words="words" in codes),
        block_rows=codes["block_rows"],
        metadata={"clozeline.kind": "tokens", "clozeline.tokenizer": vocabulary.fingerprint},
    )


def _rows(table: pa.Table, codes: Mapping[str, Any]) -> RowBatch:
    fixed = {
        "document_uid": identities(table.column("uid")),
        "language": _encode_names(table.column("language"), codes["languages"], np.uint8),
        "source_group": _encode_names(
            table.column("source_group"), codes["source_groups"], np.uint16
        ),
    }

    columns = {name: _ragged_lists(table.column(name)) for name in ("token_ids", "sentence_starts")}

    if codes["pairs"]:
        targets = _ragged_lists(table.column("target_ids"))
        names = table.column("target_language").drop_null()
        language = _encode_names(names, codes["languages"], np.uint8)
        has_target = np.minimum(targets.lengths, 1)
        languages = Ragged(language, offsets_of(has_target))
        columns |= {"target_ids": targets, "target_language": languages}

    if "words" in codes:
        columns[WORD_STARTS.name] = _ragged_lists(table.column(WORD_STARTS.name))
    return RowBatch(fixed, columns)


def _encode_names(column: pa.ChunkedArray, names: Sequence[str], dtype: Any) -> NDArray[np.generic]:
    codes = {name: code for code, name in enumerate(names)}
    return np.array([codes[name] for name in column.to_pylist()], dtype=dtype)


def _ragged_lists(column: pa.ChunkedArray) -> Ragged:
    return Ragged(
        pc.list_flatten(column).to_numpy(), offsets_of(pc.list_value_length(column).to_numpy())
    )


def name_shard(shard: int, shards: int) -> str:
    """Return the name of one of `shards` shards, to which runs are sent."""
    return f"{shard:06d}-of-{shards:06d}"


@dataclass(frozen=True)
class TokenManifest(Unit[EncodeCounts]):
    """Write `token_counts.arrow`, `index.arrow` and `manifest.json`, in the last unit."""

    VERSION = MERGE_VERSION + 2
    corpus: str
    shards: int
    seed: int
    config: Mapping[str, Any]
    tokenizer_stage: str
    parents: Sequence[ParentFile] = ()
    """files of other stages that are parents of the set"""

    def run(self, inputs: UnitInputs, output: Output) -> EncodeCounts:
        """Sum the token counts of all shards, and write the manifest of the set."""
        tokenizer = open_tokenizer(inputs)
        vocabulary = Vocabulary.load(tokenizer / VOCABULARY_FILE)
        codes = _read_codes(inputs)

        # occurrences of each id in training documents [V]
        totals = np.zeros(vocabulary.size, np.uint64)
        for shard in range(self.shards):
            by_id = _merged_file(inputs, shard, _counts_file(shard))
            totals += np.load(io.BytesIO(by_id.buffer()))

        parents = [
            {
                "name": self.tokenizer_stage,
                "digest": vocabulary.fingerprint,
                "role": "tokenizer",
            },
            *(each.describe(inputs) for each in self.parents),
        ]

        def read(shard: int, name: str) -> str:
            return _merged_file(inputs, shard, name).text()

        counts = inputs.sum_counts("encode", "tokenize")
        manifest = _set_writer(vocabulary, codes, self.shards).write_manifest(
            output,
            read,
            name=self.corpus,
            kind="tokens",
            seed=self.seed,
            tokenizer=tokenizer_metadata(tokenizer, vocabulary),
            totals={name: counts[name] for name in ("tokens_by_language", "tokens_by_source")},
            token_counts=totals,
            languages=codes["languages"],
            source_groups=codes["source_groups"],
            parents=parents,
            config=self.config,
        )

        require_written("encode", counts["documents_out"], counts["tokens"], manifest)
        return self._count_copies(inputs)

    def _count_copies(self, inputs: UnitInputs) -> EncodeCounts:
        """Count the held-out documents with the tokens of a training document, if there are any."""
        files = (_merged_file(inputs, n, _texts_file(n)) for n in range(self.shards))
        shards = [np.frombuffer(file.buffer(), np.uint64) for file in files]
        held_out = np.concatenate([hashes[hashes % 2 == 1] for hashes in shards]) - 1
        copied = reduce(np.logical_or, (np.isin(held_out, hashes) for hashes in shards))
        if not copied.any():
            return {}
        return {"held_out": {"documents": len(held_out), "copies": int(copied.sum())}}
