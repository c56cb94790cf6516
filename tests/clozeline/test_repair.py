"""The command that a message about a damaged file names makes that file again, byte for byte."""

import errno
import os
import re
import shlex

import pytest

from clozeline.errors import ClozelineError
from clozeline.pipeline.execution.recipe_command import main, run_stage
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.repair import explain, explain_error, rebuild_hint
from clozeline.seeding import hash64
from clozeline.tools.shards.validate_shards import validate
from tests.matrices import mark_slow_after
from tests.pipeline.miniature import RECIPE, write_corpus, write_recipe

COMMAND = re.compile(
    r"run `clozeline (\w+) (--verify [^`]+)`, which writes it again, or copy it again"
)
SETS = ("encode", "group/*/train", "corrupt/masked_lm/train", "corrupt/masked_lm/heldout")
FILES = [
    f"{folder}/{name}"
    for folder in SETS
    for name in ("manifest.json", "index.arrow", "*shard-00000*.arrow")
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run in a folder whose name has a blank in it."""
    folder = tmp_path_factory.mktemp("a run")
    recipe = write_recipe(folder, RECIPE[: RECIPE.index("  - {name: span_corruption")])
    words = ["--config", str(recipe), f"input={write_corpus(folder / 'crawl', 25)}"]
    assert main([*words, f"output={folder / 'out'}", "executor.workers=1"]) == 0
    return folder / "out"


def message(path):
    try:
        if path.parent.name == "tokenizer":
            Vocabulary.load(path) if path.suffix == ".json" else load_tokenizer(path.parent)
        else:
            validate(path.parent)
    except ClozelineError as error:
        return str(error)

    raise AssertionError("nothing was said")


def damage(path, kind):
    content = path.read_bytes()
    draw = hash64(path.name, kind)

    if kind == "delete":
        path.unlink()
    elif kind == "truncate":
        path.write_bytes(content[: draw % len(content)])
    else:
        place, bit = divmod(draw % (8 * len(content)), 8)
        path.write_bytes(
            content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]
        )


@pytest.mark.parametrize("kind", mark_slow_after(1, ["flip", "truncate", "delete"]))
@pytest.mark.parametrize("pattern", [*FILES, "train_tokenizer/tokenizer/vocabulary.json"])
def test_the_command_in_a_message_repairs(finished, pattern, kind):
    path = next(path for path in sorted(finished.glob(pattern)) if path.stat().st_size > 1000)
    whole = path.read_bytes()
    damage(path, kind)
    # a set without one may be one that is being written
    unmade = (kind, path.name) == (
        "delete",
        "manifest.json",
    )
    said = f"{path}; {rebuild_hint(path)}" if unmade else message(path)

    assert str(path) in said

    stage, words = COMMAND.search(said.replace("\n", " ")).groups()

    assert run_stage(stage, shlex.split(words)) == 0
    assert path.read_bytes() == whole


def test_a_file_of_no_run_is_copied(tmp_path):
    assert (
        rebuild_hint(tmp_path / "shard.arrow")
        == "copy it again, or write it again with the command that wrote it"
    )
    assert rebuild_hint("https://host.example/set/shard.arrow").startswith("copy it again")

    (tmp_path / "model.json").touch()

    assert "import the model again" in rebuild_hint(tmp_path / "tokenizer" / "vocabulary.json")
    assert explain_error(OSError("odd")) == "odd"
    assert explain_error(OSError(errno.EPIPE, "Broken pipe")) == "Broken pipe"


@pytest.mark.parametrize(
    ("code", "way_out"),
    [
        (errno.ELOOP, "remove what is there, then copy it again"),
        (errno.ENOENT, "copy it again"),
        (errno.EACCES, "change its permissions, or choose another folder"),
        (errno.ENOSPC, "free some space, then run the same command again"),
    ],
)
def test_an_error_of_the_system_names_the_file_and_a_way_out(tmp_path, code, way_out):
    path = tmp_path / "plan.json"
    assert explain_error(OSError(code, os.strerror(code), str(path))).startswith(
        f"{path}: {os.strerror(code)}; {way_out}"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MemoryError(), 77),
        (RuntimeError("can't start new thread"), 77),
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), 77),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), 77),
        (OSError("libtorch.so: cannot map: Cannot allocate memory"), 77),
        (ImportError("libtorch.so: failed to map segment from shared object"), 77),
        (RuntimeError("std::bad_alloc"), 77),
        (OSError(errno.ENOENT, "No such file", "out of memory.txt"), 74),
        (ValueError("another mistake"), 1),
    ],
)
def test_what_is_out_of_memory(error, code):
    assert explain(error)[0] == code
    assert ("out of memory (" in explain(error)[1]) == (code == 77)
