"""Corrupt and show single texts, to try an objective without a corpus.

print(corrupt_text("span_corruption", "The kitten is chasing the ball."))
"""

from clozeline.pipeline.corrupt.preview.corrupted_text import CorruptedText, corrupt_text

__all__ = ["CorruptedText", "corrupt_text"]
