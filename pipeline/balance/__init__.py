"""The stage that decides how often training reads the documents of each language and source."""
