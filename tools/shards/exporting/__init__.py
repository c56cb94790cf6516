"""Writers of shard sets in the formats of other libraries."""
