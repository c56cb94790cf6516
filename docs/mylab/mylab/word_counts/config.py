"""Keys of the stage `word_counts`."""

from clozeline.configuration.config import config_class


@config_class
class WordCountsConfig:
    """Counting of words."""

    least_length: int = 1
    """shortest word that is counted, in characters"""
