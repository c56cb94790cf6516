"""Files of a later format are refused, others are not."""

from __future__ import annotations

from typing import Any

import pytest

from clozeline.errors import NewerFormatError
from clozeline.format_version import refuse_newer


@pytest.mark.parametrize("content", [{}, {"format": 1}, {"format": 2}, {"format": "3"}, {"format": None}, [3], None])
def test_what_is_not_newer_is_left_to_its_reader(content: Any) -> None:
    refuse_newer("file.json", content, 2)


def test_the_message_names_file_formats_and_the_way_out() -> None:
    with pytest.raises(NewerFormatError) as found:
        refuse_newer("file.json", {"format": 3}, 2)
    assert found.value.exit_code == 64
    said = "file.json: format 3 of a newer version, this version reads format 2: install a newer Clozeline"
    assert str(found.value) == said
