"""The stage `clean`: read, extract, normalize, identify the language, filter."""
