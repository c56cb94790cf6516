import pytest

from tests.pipeline.captures import read


@pytest.fixture
def write(tmp_path):
    """`write(content, name)`: a file with this content, as text or bytes; returns its path."""

    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture
def read_as(request, write):
    """`read_as(content, file)`: what the reader that the test file is named after finds."""
    name = request.module.__name__.rpartition("test_")[2]
    return lambda content, file="file", **options: read(write(content, file), name=name, **options)
