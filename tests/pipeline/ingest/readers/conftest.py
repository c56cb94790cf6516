import pytest


@pytest.fixture
def write(tmp_path):
    """`write(content, name)`: a file with this content, as text or bytes; returns its path."""

    def write(content, name="file"):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write
