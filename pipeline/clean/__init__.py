"""The stage `clean`: read, extract, normalize, identify languages, and filter documents."""
