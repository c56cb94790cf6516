from tests.pipeline.conftest import complete  # noqa: F401 (fixtures)
from tests.pipeline.dedup.conftest import run_dedup  # noqa: F401
