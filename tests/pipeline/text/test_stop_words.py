"""Lists of stop words: written and read again, and counted in both kinds of scripts."""

import pytest

from clozeline.errors import ConfigurationError, StorageError
from clozeline.pipeline.text.text_statistics import TextStatistics, count_stop_words, read_stop_words


def test_lists_are_read(tmp_path):
    lists = {"de": ["der", "und"], "th": ["ที่", "และ"]}
    for language, words in lists.items():
        (tmp_path / f"{language}.txt").write_text("\n".join(words), encoding="utf-8")
    assert read_stop_words(tmp_path) == lists


def test_folders_without_lists_and_damaged_lists_are_refused(tmp_path):
    with pytest.raises(ConfigurationError, match=r"expected files such as en.txt .* got none"):
        read_stop_words(tmp_path)
    (tmp_path / "en.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="utf-8"):
        read_stop_words(tmp_path)


def test_words_count_once_and_strings_anywhere():
    assert count_stop_words(TextStatistics("the cat the dog"), frozenset({"the", "a"}), "en") == 1
    assert count_stop_words(TextStatistics("theatre"), frozenset({"the"}), "en") == 0
    assert count_stop_words(TextStatistics("我的书是你的"), frozenset({"的", "是", "了"}), "zh") == 2
