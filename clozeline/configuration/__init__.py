"""Parts of the configuration reader: strict YAML, schema descriptions, command-line overrides."""
