"""A set is there when its manifest is, and whoever wrote it, however often it was killed, its bytes are the same."""

import pytest

from clozeline.errors import StorageError
from clozeline.pipeline.execution.recipe_command import main
from clozeline.pipeline.shards import open_shards
from clozeline.tools.shards.validate_shards import validate
from tests.pipeline.killed_run import killed
from tests.pipeline.miniature import write_corpus, write_recipe

LABELS = ("masked_lm", "span_corruption")


def words(folder, output, *more):
    entries = "corrupt=[{name: masked_lm, max_length: 64}, {name: span_corruption, input_length: 64, container: tar}]"
    recipe = ["--config", str(folder / "recipe.yaml"), f"input={folder / 'crawl'}/*.jsonl", f"output={output}"]
    return [*recipe, "plan.shard_bytes=20000", entries, *more]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A corpus, its recipe, and what one task makes of it."""
    folder = tmp_path_factory.mktemp("sets")
    write_recipe(folder)
    write_corpus(folder / "crawl")
    assert main(words(folder, folder / "one task")) == 0
    return folder


def digests(output):
    """Digest of every set, after a check of all that it has."""
    manifests = sorted(output.rglob("manifest.json"))
    assert all(validate(path).startswith("OK: ") for path in manifests)
    return {str(path.relative_to(output)): open_shards(path).digest for path in manifests}


@pytest.mark.slow
def test_killed_before_the_merge_there_is_no_set_and_a_rerun_completes_it(folder, tmp_path):
    """Also where a set of another configuration stood: the old manifest is gone before the first new shard comes."""
    output = tmp_path / "out"
    assert main(words(folder, output, "corrupt.0.mask_rate=0.4")) == 0
    shards = sorted(path.name for path in (output / "corrupt/masked_lm/train").glob("shard-*"))
    assert len(shards) > 1
    for name in (shards[0], shards[-1], "manifest.json"):
        killed("before", f"corrupt/masked_lm/train/{name}", words(folder, output, "executor.workers=1"), tmp_path)
        with pytest.raises(StorageError, match="no shard set here"):
            open_shards(output / "corrupt/masked_lm/train")
    assert main(words(folder, output)) == 0
    assert digests(output) == digests(folder / "one task")
