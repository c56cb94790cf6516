"""The tokens of a text in order."""

from clozeline.pipeline.text.word_tokens import TokenTable


def word_tokens(text):
    table = TokenTable()
    return [table.tokens[number] for number in table.ids_of(text.split())]
