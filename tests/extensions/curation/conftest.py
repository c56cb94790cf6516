from tests.pipeline.conftest import complete  # noqa: F401 (a fixture)
