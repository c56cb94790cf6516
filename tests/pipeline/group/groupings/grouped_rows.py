from clozeline.pipeline.group.groupings import Context, GroupingSpec, MinimumRow, build_grouping
from tests.pipeline.corruption_cases import vocabulary

WORDS = vocabulary(1000)


def run(rows, name, length, minimum=None, separator="none"):
    spec = GroupingSpec(name, length, separator)
    grouped = build_grouping(spec, WORDS).group(rows, minimum or MinimumRow(), Context(spec.label))
    return grouped.rows, grouped.counts
