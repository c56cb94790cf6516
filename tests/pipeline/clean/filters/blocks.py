"""Filters of datatrove that a user could have written, for tests; some of them keep state."""

from datatrove.pipeline.filters.base_filter import BaseFilter


class DropsTheRest(BaseFilter):
    """Drops all documents behind the first 999."""

    def __init__(self):
        super().__init__()
        self.seen = 0

    def filter(self, doc):
        self.seen += 1
        return self.seen < 1000


class KeepsTheFirst(BaseFilter):
    """Remembers texts in an object that cannot be pickled."""

    def __init__(self):
        super().__init__()
        seen = set()
        self.is_new = lambda text: text not in seen and not seen.add(text)

    def filter(self, doc):
        return self.is_new(doc.text)


class NeedsEverything(BaseFilter):
    """Looks at all documents of a task."""

    def filter(self, doc):
        return True

    def run(self, data, rank=0, world_size=1):
        yield from sorted(data, key=lambda doc: doc.text)


class Annotates(BaseFilter):
    """Edits the text, and adds to the metadata."""

    def __init__(self, word: str):
        super().__init__()
        self.word = word

    def filter(self, doc):
        count = doc.text.count(self.word)
        doc.text = doc.text.replace(self.word, "")
        doc.metadata["removed_words"] = count
        if not doc.metadata.get("url"):
            return False, "no_url"
        return count < 3


class Fails(BaseFilter):
    def filter(self, doc):
        return 1 / 0


class NeedsWords(BaseFilter):
    def filter(self, doc):
        if "odd" in doc.text:
            raise ValueError("an odd text")
        return True
