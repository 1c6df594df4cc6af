"""Spark's frames, for tests; pyspark is not imported."""

from itertools import pairwise

import pyarrow as pa

from tests.tables import CLASSES, make_frame

ROWS = 600
CUTS = [0, 250, 250, 320, 600]
"""Where partitions begin and end: the second is empty."""
WORDS = {"job", "place", "person", "income"}


def make_table(target=CLASSES, rows=ROWS, seed=0):
    """Made-up rows with Spark's types."""
    return table_of(make_frame(rows, seed, target), target)


def table_of(frame, target=CLASSES):
    """The same types as Spark has: doubles and texts."""
    words = WORDS - ({"income"} if "bounds" in target else set())
    columns = {
        name: pa.array(frame[name].tolist(), pa.string(), from_pandas=True)
        if name in words
        else pa.array(frame[name].tolist(), pa.float64())
        for name in frame
    }
    return pa.table(columns)


def to_spark(spark, table, cuts=CUTS):
    rows = [tuple(row.values()) for row in table.to_pylist()]
    slices = [rows[a:b] for a, b in pairwise(cuts)]
    kinds = {pa.string(): "string", pa.float64(): "double"}
    schema = ", ".join(f"{field.name} {kinds[field.type]}" for field in table.schema)
    dealt = spark.sparkContext.parallelize(slices, len(slices)).flatMap(lambda part: part)
    return spark.createDataFrame(dealt, schema)
