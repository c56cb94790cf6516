"""Every file that a tool reads, damaged in every way, is named by it; no single flipped bit of a set goes unnoticed."""

import random
import re
import shutil
from itertools import product

import numpy as np
import pytest

from clozeline.errors import IntegrityError
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.quarantine import publish_quarantine
from clozeline.tools.shards.validate_shards import validate
from clozeline.train.data.stream.stream import Stream
from tests.commands import command_module
from tests.shard_sets import objective, ordered, write_set
from tests.tools.small_run import example_sets

TOOLS = ("validate_shards", "inspect_shard", "explain_batch", "shard_stats", "where_is",
         "export_set", "repack_shards")  # fmt: skip
FILES = {
    "manifest": "corrupt/masked_lm/train/manifest.json",
    "index": "corrupt/masked_lm/train/index.arrow",
    "quarantine": "corrupt/masked_lm/train/quarantine.json",
    "shard": "corrupt/masked_lm/train/shard-00000-of-00004.arrow",
    "vocabulary": "train_tokenizer/tokenizer/vocabulary.json",
    "model": "train_tokenizer/tokenizer/tokenizer.json",
    "name": "train_tokenizer/tokenizer/name",
    "token manifest": "encode/manifest.json",
    "token index": "encode/index.arrow",
    "documents": "encode/documents-00000-of-00002.arrow",
    "sample manifest": "group/GROUPING/train/manifest.json",
}
KNOWN_EXITS = (64, 65, 74)
NEIGHBOURS = ("token manifest", "documents", "sample manifest")
"""Files of other stages: a set that was moved lacks them, and beside a newer run it finds those of other sets."""


class Bench:
    """A run of the pipeline that may be damaged, and what each tool says of it."""

    def __init__(self, source, folder):
        self.output = shutil.copytree(source, folder / "out")
        self.new = folder / "new"
        self.set, samples = example_sets(self.output)["masked_lm"]
        self.samples = str(samples.relative_to(self.output).parent.parent.name)
        shards = open_shards(self.set)
        self.uid = f"{int(shards.read_block(0).fixed['uid'][0]):016x}"
        shard = shards.manifest.shards[-1]
        entry = {"shard": shard.path, "block": shard.blocks - 1, "reason": "a test"}
        publish_quarantine(self.set.parent, [entry])

    def path(self, name):
        return self.output / FILES[name].replace("GROUPING", self.samples)

    def arguments(self, tool):
        new = ["--output", str(self.new)]
        more = {"explain_batch": ["--step", "1"], "where_is": ["--uid", self.uid, "--json"],
                "export_set": [*new, "--format", "mds"], "repack_shards": [*new, "--container", "tar"]}  # fmt: skip
        return [str(self.set), *more.get(tool, [])]

    def ask(self, tool, capsys):
        shutil.rmtree(self.new, ignore_errors=True)
        code = command_module(tool).main(self.arguments(tool))
        out, err = capsys.readouterr()
        written = sorted((path.name, path.read_bytes()) for path in self.new.rglob("*") if path.is_file())
        return code, re.sub(r"[\d,.]+ (tokens/s|bytes)", "", out) + repr([name for name, _ in written]), err


@pytest.fixture
def bench(shard_sets, tmp_path):
    return Bench(shard_sets, tmp_path)


def damages(path, other, draw, flips):
    whole = path.read_bytes()
    for _ in range(flips):
        bit = draw.randrange(8 * len(whole))
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        yield f"bit {bit}", lambda damaged=damaged: path.write_bytes(damaged)
    for length in (0, len(whole) // 2, *((1, len(whole) - 1) if flips > 9 else ())):
        yield f"{length} bytes", lambda length=length: path.write_bytes(whole[:length])
    yield "longer", lambda: path.write_bytes(whole + b"\0")
    yield "deleted", path.unlink
    yield "another's", lambda: path.write_bytes(other.read_bytes())
    yield "a folder", lambda: (path.unlink(), path.mkdir())


def is_legitimate(name, kind, tool):
    """Return whether a damage gives what may be meant so."""
    if name == "quarantine":  # a set need not have one; every start of a run records its hash
        return kind == "deleted"
    return name in NEIGHBOURS and kind in ("deleted", "a folder", "another's")


def unnoticed(bench, name, flips, capsys, every=1):
    """Damage a file, in every third way if `every` is 3; return what a tool does that has no stated reason."""
    path, other = bench.path(name), bench.output / "corrupt/causal_lm/train/manifest.json"
    rivals = {"index": bench.output / "corrupt/causal_lm/train/index.arrow", "shard": bench.path("index"),
              "sample manifest": bench.path("token manifest"), "token index": bench.path("index")}  # fmt: skip
    expected = {tool: bench.ask(tool, capsys) for tool in TOOLS}
    assert not any(code for code, _, _ in expected.values())
    whole, found = path.read_bytes(), []
    ways = list(damages(path, rivals.get(name, other), random.Random(name), flips))
    for kind, damage in ways[[*FILES].index(name) % every :: every]:
        damage()
        for tool in TOOLS:
            code, out, err = bench.ask(tool, capsys)
            same = (code, out) == expected[tool][:2]
            told = path.name in err or "note: " in err or str(path.parent) in err or "tokenizer is not above" in out
            broken = "Traceback" in err or code not in (0, expected[tool][0], *KNOWN_EXITS) or err.count("\n") > 3
            if broken or not (same or told or is_legitimate(name, kind, tool)):
                found.append(f"{name}, {kind}: {tool} ended with {code}: {err[-300:]}")
        if path.is_dir():
            path.rmdir()
        path.write_bytes(whole)
    return found


@pytest.mark.parametrize("name", FILES)
def test_damage_is_named_by_every_tool(bench, name, capsys):
    found = unnoticed(bench, name, 2, capsys, every=3)
    assert not found, "\n".join(found)


ROWS = 16


@pytest.fixture(params=product(("arrow", "tar"), ("none", "zstd")), ids=" ".join)
def folder(tmp_path, monkeypatch, request):
    """A small set.

    The manifest has everything that JSON can spell in two ways: fractions, signs beyond ASCII.
    """
    container, codec = request.param
    monkeypatch.setattr("clozeline.train.data.stream.rounds._PAUSE_S", 0.0)  # before a bad block is read again
    facts = objective("decoder", rate=1e-7, text="café ▁ \N{GRINNING FACE}")
    shards = [ordered(range(1, 12)), ordered([]), ordered(range(12, 1 + ROWS))]
    write_set(tmp_path / "set", shards, container=container, codec=codec, objective=facts, languages=("en",))
    return tmp_path / "set"


def stream(folder):
    """An epoch, as a trainer reads it."""
    shards = open_shards(folder)
    sizes = {"lanes": 2, "global_batch": 4, "micro_batch": 4, "io_threads": 0}
    with Stream(shards, rank=0, world_size=1, seed=1, **sizes) as batches:
        for _ in range(ROWS // 4):
            batches.next_step()


def mistake(check, folder):
    """Return the faults that a check of the set names."""
    try:
        check(folder)
    except IntegrityError as error:
        return str(error)
    return ""


def read_by_the_stream(folder):
    """The files of the set, and which of their bytes the stream reads: those of blocks, and all that are no shards."""
    shards = open_shards(folder)
    files = {path: np.ones(path.stat().st_size, np.bool_) for path in sorted(folder.iterdir())}
    for number in range(len(shards.manifest.shards)):
        files[shards.shard_path(number)][:] = False
    for shard, start, length in zip(shards.index.shard, shards.index.offset, shards.index.length, strict=True):
        files[shards.shard_path(int(shard))][int(start) : int(start + length)] = True
    return files


def silent_flips(folder, bits):
    """Flip bits of the set, each alone; those that a reader lets pass."""
    files = read_by_the_stream(folder)
    silent = []
    for path, bit in bits:
        whole = path.read_bytes()
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        streamed = mistake(stream, folder)
        if str(folder) not in mistake(validate, folder) or bool(streamed) != files[path][bit // 8]:
            silent.append(f"{path.name}: bit {bit % 8} of byte {bit // 8}; the stream said {streamed!r}")
        path.write_bytes(whole)
    return silent


def some_bits(folder, count):
    """Places drawn from all files alike: each has its share, however small it is beside the others."""
    draw = random.Random(folder.name)
    files = sorted(folder.iterdir())
    for number in range(count):
        path = files[number % len(files)]
        yield path, draw.randrange(8 * path.stat().st_size)


def test_hundreds_of_flipped_bits_are_found(folder):
    assert silent_flips(folder, some_bits(folder, 40)) == []
