"""Parts of reading a configuration: strict YAML, what a schema says, and overrides of the command line."""
