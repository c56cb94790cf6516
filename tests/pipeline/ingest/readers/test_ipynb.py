"""Notebooks: the sources of all cells, whatever format wrote them."""

import gzip
import json

import pytest

from clozeline.pipeline.ingest.readers import RawRecord
from tests.pipeline.captures import counted, read, texts

CELLS = [
    {
        "cell_type": "markdown",
        "metadata": {},
        "source": ["# Rain\n", "It is *raining*."],
        "attachments": {"a.png": {"image/png": "iVBORw0KGgo="}},
    },
    {
        "cell_type": "code",
        "source": "x = 1\nprint(x)\n",
        "execution_count": 1,
        "metadata": {},
        "outputs": [{"output_type": "stream", "text": ["OUTPUT"]}],
    },
    {"cell_type": "markdown", "source": None, "metadata": {}},
    {"cell_type": "code", "source": [], "outputs": [], "metadata": {}},
]
TEXT = "# Rain\nIt is *raining*.\n\nx = 1\nprint(x)"
FILE = json.dumps(
    {
        "cells": CELLS,
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
).encode()
OLD = {
    "nbformat": 3,
    "worksheets": [
        {
            "cells": [
                {**CELLS[0]},
                {"cell_type": "code", "input": "x = 1\nprint(x)\n"},
            ]
        }
    ],
}


@pytest.mark.parametrize(
    "content",
    [
        FILE,
        json.dumps(OLD, indent=1).encode(),
        gzip.compress(FILE, mtime=0),
        b"\xef\xbb\xbf" + FILE,
    ],
)
def test_sources_without_outputs(tmp_path, content):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    assert texts(read(path, name="ipynb")) == [TEXT]


@pytest.mark.parametrize(
    "content",
    [
        FILE[:-40],
        b"[]",
        b'{"cells": 3}',
        b'{"cells": [3]}',
        b'{"cells": [{"source": 3}]}',
        b"{}",
        b"[" * 100_000,
        b'{"cells": [{"source": [1]}]}',
    ],
)
def test_what_is_no_notebook_is_counted(tmp_path, content):
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    items = read(path, name="ipynb")

    assert counted(items) == {"bad_json": 1}
    assert not [item for item in items if isinstance(item, RawRecord)]
    assert "Error" not in items[0].detail
