"""The stage `clean`: read, extract, normalise, identify the language, filter, write."""
