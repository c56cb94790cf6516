"""What the tools say of batches and of samples: what the stream delivers, all of it and nothing
else."""

import json
import re
import shutil
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest

from clozeline.pipeline.corrupt.objectives import Skip
from clozeline.pipeline.corrupt.preview.row_view import TokenRenderer
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.report.views import visible
from clozeline.tools.runs.data.feed import Feed
from clozeline.tools.shards.explain_batch import explain, label_runs
from clozeline.tools.shards.explain_batch import main as explain_batch
from clozeline.train.data.stream.online_corruption import Corruption
from clozeline.train.data.stream.phases import as_phases
from clozeline.train.data.stream.stream import Stream
from tests.sealed_lines import sealed
from tests.shard_sets import toy_set
from tests.tools.shards.provenance.read_runs import run_directory
from tests.tools.small_run import documents, example_sets


def test_rows_are_named_with_document_source_and_text(shard_sets):
    manifest = example_sets(shard_sets)["masked_lm"][0]
    shards = open_shards(manifest)
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    feed = Feed(as_phases(shards), 3, 4, 8)
    known = {document.uid.hex(): document for document in documents()}

    for facts, visit in zip(
        explain(feed, 16, tokens=1000),
        feed.batch(16),
        strict=True,
    ):
        block, place = visit.stored
        row = shards.read_block(block).row(place)

        assert facts["sample"] == f"{int(row.fixed['uid']):016x}"
        assert facts["variant"] == row.fixed["variant"]
        assert facts["shard"] == shards.shard_path(int(shards.index.shard[block])).name
        assert (facts["block"], facts["row"]) == (shards.index.block[block], place)
        assert facts["documents"] == 1 + len(facts["others"])

        document = known[facts["document"]]

        assert (facts["source"], facts["source_offset"], facts["url"]) == (
            document.source,
            document.offset,
            document.url,
        )

        decoded = tokenizer.decode(row["input_ids"].tolist())

        assert facts["input_ids"].split()[:3] == " ".join(decoded.split()).split()[:3]

        runs = [re.match(r"(\d+)(?:-(\d+))? \S", run) for run in facts["label_ids"].split(" | ")]
        labels = [range(int(run[1]), int(run[2] or run[1]) + 1) for run in runs]

        assert [*chain(*labels)] == row["label_positions"].tolist()

    assert [one["place"] for one in explain(feed, 16, lane=2)] == [4, 5]


class Letters:
    """A tokenizer whose ids are the bytes of texts, and so no whole letters."""

    vocabulary = SimpleNamespace(special={}, size=0, sentinels=())

    def decode_part(self, ids):
        return bytes(ids).decode("utf-8", "replace")

    def piece(self, token):
        return f"<{token:02X}>"


def test_labels_have_whole_letters_and_their_positions():
    ids = [*"né".encode(), *"é".encode()[:1], *b" x"]
    runs = label_runs(ids, np.array([3, 4, 5, 9, 11, 12], np.uint16), TokenRenderer(Letters()))
    assert [*runs] == ["3-5 né", "9 <C3>", "11-12 x"]


def test_steps_are_those_that_the_run_took_whatever_its_configuration_says_now(
    shard_sets, tmp_path, capsys
):
    """Four steps of 4 rows, two of 8, and from there on the 8 rows of the configuration."""
    run = run_directory(tmp_path, example_sets(shard_sets)["masked_lm"][0], 0)
    sizes = [4, 4, 4, 4, 8, 8]
    ends = np.cumsum(sizes).tolist()
    lines = [sealed(step=step, samples=end) for step, end in enumerate(ends, start=1)]
    (run / "metrics.jsonl").write_text("\n".join(lines))

    for step, (begin, size) in enumerate(
        zip(
            [0, *ends, 40, 48],
            [*sizes, 8, 8, 8],
            strict=True,
        ),
        start=1,
    ):
        assert explain_batch(["--run", str(run), "--step", str(step)]) == 0

        state = (
            "read already"
            if step <= 6
            else "not read yet"
            if step <= 8
            else "after the run's last step"
        )

        out = capsys.readouterr().out

        assert f"samples {begin} to {begin + size}, step {step}, {state}" in out
        assert out.count("\ndocument  ") == size
        assert "filler" not in out


def test_samples_are_shown_as_the_stream_corrupts_them(shard_sets, tmp_path, capsys):
    """Batches of epochs 0 and 1 of the samples are the rows of variants 0 and 1 of the stored
    examples."""
    examples, samples = example_sets(shard_sets)["masked_lm"]
    stored = {
        (f"{int(row.fixed['uid']):016x}", int(row.fixed["variant"])): row["input_ids"]
        for row in open_shards(examples)
    }
    run = run_directory(tmp_path, samples, 0, data__corrupt={"name": "masked_lm", "max_length": 48})
    tokenizer = load_tokenizer(shard_sets / "train_tokenizer" / "tokenizer")
    shown = set()

    for samples_read in range(0, 208, 8):
        assert (
            explain_batch(
                ["--run", str(run), "--samples", str(samples_read), "--json", "--tokens", "100"]
            )
            == 0
        )

        for facts in map(json.loads, capsys.readouterr().out.splitlines()):
            if "sample" in facts:
                key = (facts["sample"], facts["variant"])
                assert facts["variant"] == facts["epoch"]
                decoded = visible(tokenizer.decode(stored[key].tolist()))
                assert facts["input_ids"] == " ".join(decoded.replace("⏎", "").split())
                shown.add(key)

    assert {variant for _, variant in shown} == {0, 1}
    assert len(shown) > 200


def test_skipped_samples_are_filler(shard_sets, tmp_path, capsys, monkeypatch):
    samples = example_sets(shard_sets)["masked_lm"][1]
    run = run_directory(tmp_path, samples, 0, data__corrupt={"name": "masked_lm", "max_length": 48})
    monkeypatch.setattr(
        Corruption, "__call__", lambda self, rows, variants: (rows, np.array([Skip.TOO_SHORT]))
    )

    assert explain_batch(["--run", str(run), "--step", "1"]) == 0

    out = capsys.readouterr().out

    assert out.count("skipped by the objective (too_short)") == 8
    assert out.count("\ndocument  ") == 8
    assert "ids  " not in out
    assert (
        explain_batch(
            [
                str(toy_set(tmp_path / "toy", [9]).path),
                "--step",
                "3",
                "--global-batch",
                "4",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.count(", epoch 0\nfiller  row of weight 0\n") == 3


def test_rows_that_are_not_delivered_are_filler(shard_sets, tmp_path, capsys):
    """Of a damaged block where the run skips them, as the stream has it."""
    folder = shutil.copytree(example_sets(shard_sets)["masked_lm"][0].parent, tmp_path / "set")
    shards = open_shards(folder)

    for block in (1, 4):
        with shards.shard_path(int(shards.index.shard[block])).open("rb+") as file:
            file.seek(int(shards.index.offset[block]) + int(shards.index.length[block]) - 1)
            file.write(b"?")

    run = run_directory(tmp_path, folder, 0, data__max_damaged_fraction=0.5)
    shards = open_shards(folder)
    expected = delivered_places(shards, 3, 4, 8, 27)
    shown = []
    for step in range(1, 28):
        assert explain_batch(["--run", str(run), "--step", str(step), "--json"]) == 0
        shown += [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [
        (
            one["shard"],
            one["block"],
            one["row"],
        )
        if "sample" in one
        else None
        for one in shown
    ] == expected

    filler = [one["filler"] for one in shown if "filler" in one]

    assert len(filler) == 32
    assert all("is skipped: " in text for text in filler)
    # a set by itself skips nothing
    assert explain_batch([str(folder), "--step", "1", "--global-batch", "200"]) == 65


def delivered_places(shards, seed, lanes, global_batch, steps):
    """Shard, block and row of everything that a stream delivers; None for filler rows."""
    found = []

    with Stream(
        as_phases(shards),
        rank=0,
        world_size=1,
        lanes=lanes,
        seed=seed,
        global_batch=global_batch,
        micro_batch=8,
        io_threads=0,
        max_damaged_fraction=0.5,
    ) as stream:
        for _ in range(steps):
            for batch in stream.next_step():
                for (_, block, row), weight in zip(
                    batch.origin.tolist(), batch.row_weight.tolist(), strict=True
                ):
                    path = shards.manifest.shards[int(shards.index.shard[block])].path
                    found.append(
                        (
                            path,
                            int(shards.index.block[block]),
                            row,
                        )
                        if weight
                        else None
                    )

    return found


def test_a_run_whose_lines_cannot_be_read_is_refused(shard_sets, tmp_path, capsys):
    run = run_directory(tmp_path, example_sets(shard_sets)["masked_lm"][0], 0)
    (run / "metrics.jsonl").write_text(f"{sealed(samples='x')}\n")

    assert explain_batch(["--run", str(run), "--step", "1"]) == 65
    assert "metrics.jsonl: expected a JSON object a line" in capsys.readouterr().err

    (run / "metrics.jsonl").write_bytes(b'\xff\xfe{\n[1, "samples"]\n\n')

    assert explain_batch(["--run", str(run), "--step", "1"]) == 0, "damaged lines are left out"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SET"], "expected samples=N or step=N"),
        (["SET", "--samples", "9", "--global-batch", "4"], "expected a multiple of the 4 lanes"),
        (
            ["SET", "--step", "1", "--lanes", "3"],
            "lanes=3: expected a divisor of the global batch 64",
        ),
        (["--step", "1"], "expected a MANIFEST or a run"),
        (["--run", "SET", "--step", "1"], "expected a run directory with config.yaml"),
        (["--run", "SET", "--seed", "1", "--step", "1"], "seed: the run's value is used"),
    ],
)
def test_wrong_use_ends_in_one_message(tmp_path, capsys, arguments, message):
    folder = toy_set(tmp_path / "set", [9]).path.parent
    assert explain_batch([str(folder) if word == "SET" else word for word in arguments]) == 64
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


def test_token_sets_and_empty_sets_have_no_batches(shard_sets, tmp_path, capsys):
    assert explain_batch([str(shard_sets / "encode"), "--step", "1"]) == 64
    assert explain_batch([str(toy_set(tmp_path, []).path), "--step", "1"]) == 64

    lines = capsys.readouterr().err.splitlines()

    assert ["a token set is not streamed" in lines[0], "has no rows to stream" in lines[1]] == [
        True,
        True,
    ]
