"""Write and read feature files: vectors of texts by a frozen model.

They are rows of an Arrow file, with a manifest. This file imports torch.
"""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from torch import Tensor

from clozeline.checksummed_json import add_checksum, verify_checksum
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.files import file_hash, publish, publish_json, read_json
from clozeline.model.layers.pooling import pool
from clozeline.model.scoring.features import check_layer, token_vectors
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.token_spans import first_tokens, token_spans
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.tools.runs.inference.text_likelihoods import word_spans
from clozeline.train.checkpoint.trained_model import TrainedModel

Pool: TypeAlias = Literal["token", "first_subword", "cls", "mean", "max", "last"]
"""token: one vector per token; first_subword: per word, that of its first token; the others: one
vector per text, over all its tokens, special ones included"""
Precision: TypeAlias = Literal["f32", "f16"]
FEATURES: Final = "features.arrow"
MANIFEST: Final = "features.json"
_FORMAT: Final = 1
_BATCH_TEXTS: Final = 512
"""texts whose vectors are in memory at a time"""


@dataclass(frozen=True)
class FeatureChoice:
    """Choice of the vectors to write.

    Texts are truncated at `max_length` tokens, special ones included.
    """

    layer: str
    pool: Pool
    precision: Precision
    max_length: int


@dataclass(frozen=True)
class Features:
    """Rows of a feature file: `uid`, `position`, `text` and `vector` of each."""

    uids: list[str]
    positions: list[int]
    texts: list[str]
    vectors: NDArray[np.generic]
    """[rows, width] float32"""
    facts: dict[str, Any]
    """the manifest"""


def write_features(
    folder: Path,
    trained: TrainedModel,
    objective: ObjectiveRecord,
    texts: Iterable[tuple[str, str]],
    chosen: FeatureChoice,
    facts: Mapping[str, object],
) -> dict[str, Any]:
    """Write the vectors of (name, text) pairs in order, then a manifest; return the manifest.

    The objective tells which special tokens surround a text; `facts`, properties of run and texts,
    go into the manifest.
    """
    check_layer(trained.model, chosen.layer)
    head = objective.frame.before_text
    tail = () if objective.architecture == "decoder" else objective.frame.tail

    if chosen.pool == "cls" and not head:
        raise ConfigurationError(
            "pool=cls: rows of this run start with no special token; use mean or last"
        )

    room = chosen.max_length - len(head) - len(tail)
    if room < 1:
        raise ConfigurationError(
            f"max_length: expected room for more than special tokens, got {chosen.max_length}"
        )

    counts = dict.fromkeys(("texts", "rows", "truncated", "empty", "width"), 0)
    iterator = iter(texts)

    with publish(folder / FEATURES) as temporary, contextlib.ExitStack() as opened:
        writer = None

        while group := list(islice(iterator, _BATCH_TEXTS)):
            # encode a batch of texts, truncate them, and add special tokens
            encoded = trained.tokenizer.encode([text for _, text in group])
            rows = [[*head, *encoding.ids[:room].tolist(), *tail] for encoding in encoded]
            vectors = token_vectors(trained.model, [row or [0] for row in rows], chosen.layer)
            # one entry per text, token or word, as the pooling asks
            units = [
                (name, *unit)
                for (name, text), encoding, row, of_row in zip(
                    group, encoded, rows, vectors, strict=True
                )
                if row
                for unit in _select_units(
                    trained, text, encoding, of_row, len(head), room, chosen.pool
                )
            ]

            table = _build_table(units, vectors[0].shape[1], chosen)
            writer = writer or opened.enter_context(pa.ipc.new_file(temporary, table.schema))
            writer.write_table(table)
            counts["texts"] += len(group)
            counts["rows"] += len(table)
            counts["truncated"] += sum(len(encoding.ids) > room for encoding in encoded)
            counts["empty"] += sum(not len(encoding.ids) for encoding in encoded)
            counts["width"] = vectors[0].shape[1]

        if writer is None:
            raise ConfigurationError("input: expected a text, got none")

    manifest = {"format": _FORMAT, **facts, **asdict(chosen), **counts, "file": FEATURES}
    manifest["hash"] = file_hash(folder / FEATURES)
    publish_json(folder / MANIFEST, add_checksum(manifest))
    return manifest


def open_features(folder: Path) -> Features:
    """Return the rows of a folder that `write_features` wrote."""
    path = folder / MANIFEST
    if not path.is_file():
        raise ConfigurationError(
            f"{folder}: found no {MANIFEST}: give an output of clozeline extract-features"
        )

    try:
        facts = verify_checksum(read_json(path) or {}, path, _FORMAT)
    except ValueError as error:
        raise IntegrityError(f"{path}: is damaged: {error}; extract the features again") from error

    if not isinstance(facts.get("file"), str):
        raise IntegrityError(
            f"{path}: is damaged: expected the name of a file; extract the features again"
        )

    file = folder / facts["file"]
    if not file.is_file() or file_hash(file) != facts.get("hash"):
        raise IntegrityError(
            f"{file}: is missing or not what {path} says; extract the features again"
        )

    with pa.memory_map(str(file)) as mapped:
        table = pa.ipc.open_file(mapped).read_all()
        vectors = table["vector"].combine_chunks().flatten().to_numpy().astype(np.float32)
        uids, positions, texts = (table[name].to_pylist() for name in ("uid", "position", "text"))

    return Features(uids, positions, texts, vectors.reshape(len(table), -1), facts)


def _select_units(
    trained: TrainedModel,
    text: str,
    encoding: Encoding,
    vectors: Tensor,
    first: int,
    room: int,
    kind: Pool,
) -> list[tuple[int, str, Tensor]]:
    """Return index, text and vector of each unit of a text.

    Units are the text itself, its tokens, or its words.

    `vectors` covers all tokens of the row, in which the text starts at position `first` with at
    most `room` tokens.
    """
    if kind == "token":
        pieces = [trained.tokenizer.piece(int(token)) for token in encoding.ids[:room]]
        return [
            (position, piece, vectors[first + position]) for position, piece in enumerate(pieces)
        ]

    if kind != "first_subword":
        return [(0, text, pool(kind, vectors[None], {"lengths": torch.tensor(len(vectors))})[0])]
    bounds = word_spans(text)
    tokens = first_tokens(
        token_spans(text, encoding.starts, encoding.ends), np.array(bounds, np.int64).reshape(-1, 2)
    )
    return [
        (word, text[slice(*bounds[word])], vectors[first + token])
        for word, token in enumerate(tokens.tolist())
        if 0 <= token < room
    ]


def _build_table(
    units: Sequence[tuple[str, int, str, Tensor]], width: int, chosen: FeatureChoice
) -> pa.Table:
    flat = torch.stack([unit[3] for unit in units]).flatten() if units else torch.zeros(0)
    numbers = flat.numpy().astype(np.float16 if chosen.precision == "f16" else np.float32)
    uids, positions, texts = ([unit[index] for unit in units] for index in range(3))
    strings = {
        "uid": uids,
        "text": texts,
        "layer": [chosen.layer] * len(units),
        "pool": [chosen.pool] * len(units),
    }

    columns = {name: pa.array(values, pa.string()) for name, values in strings.items()}
    columns["position"] = pa.array(positions, pa.int32())
    columns["vector"] = pa.FixedSizeListArray.from_arrays(pa.array(numbers), width)
    return pa.table(
        {name: columns[name] for name in ("uid", "position", "text", "layer", "pool", "vector")}
    )
