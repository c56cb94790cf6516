import pytest

from clozeline.pipeline.execution.recipe_command import main
from tests.built_once import built_once
from tests.pipeline.miniature import write_complete


@pytest.fixture(scope="session")
def complete(tmp_path_factory):
    """Return the arguments and the output of a run of all stages for documents, which no test
    changes."""

    def make(folder):
        folder.mkdir()
        assert main([*write_complete(folder), f"output={folder / 'out'}"]) == 0

    folder = built_once(tmp_path_factory, "complete", make)
    return ["--config", str(folder / "recipe.yaml")], folder / "out"
