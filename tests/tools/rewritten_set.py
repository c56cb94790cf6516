"""Sets whose rows are changed while all hashes and counts stay right."""

from dataclasses import replace

import numpy as np

from clozeline.pipeline.execution.unit_record import Output
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards, write_manifest, write_shard
from clozeline.tools.shards.validate_shards import main
from tests.tools.small_run import example_sets


def rewrite(output, label, change):
    """The set again with changed rows (`change(block, rows) -> rows`), all hashes and counts
    right."""
    source, samples = example_sets(output)[label]
    shards = open_shards(source)
    manifest = shards.manifest
    folder = output / "corrupt" / "changed" / "train"
    folder.mkdir(parents=True)
    infos = []

    for number, facts in enumerate(manifest.shards):
        blocks = [
            change(int(b), shards.read_block(int(b)))
            for b in np.flatnonzero(shards.index.shard == number)
        ]
        infos.append(
            write_shard(
                folder / facts.path,
                blocks,
                shards.columns,
                block_rows=manifest.block_rows,
                container=manifest.container,
                codec="zstd",
            )
        )

    plain = manifest.model_dump(mode="json")
    kept = {
        key: plain[key]
        for key in ("objective", "grouping", "variants", "languages", "parents", "config")
    }
    write_manifest(
        folder,
        name=manifest.name,
        kind="examples",
        seed=manifest.seed,
        tokenizer=plain["tokenizer"],
        columns=shards.columns,
        block_rows=manifest.block_rows,
        container=manifest.container,
        codec="zstd",
        shards=infos,
        output=Output(output),
        totals={"skipped": plain["totals"]["skipped"]},
        **kept,
    )

    return folder / "manifest.json", samples


def changed(rows, name, row, place, value):
    """Rows with one value of a list column replaced."""
    column = rows.columns[name]
    values = column.values.copy()
    values[int(column.offsets[row]) + place] = value
    return RowBatch(rows.fixed, {**rows.columns, name: Ragged(values, column.offsets)})


def repeated(rows, name):
    """The third row's second value is its first."""
    return changed(rows, name, 2, 1, int(rows.columns[name][2][0]))


def at(block, change):
    return lambda number, rows: change(rows) if number == block else rows


def fails(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 65
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    return error


def with_fixed(rows, name, row, value):
    column = rows.fixed[name].copy()
    column[row] = value
    return replace(rows, fixed={**rows.fixed, name: column})
