from tests.clozeline.conftest import whole  # noqa: F401 (fixtures)
