"""Ranks a graph with Spark's GraphX, and prints how long each iteration took and what it found.

    graphx.py INPUT CORES MEMORY [--iterations N]

GraphX has no interface for Python; its classes are called through the bridge that Python's has anyway, and everything
that an iteration does is GraphX's own. Each edge counts once. What vertices without edges have is lost in each iteration,
and ranks are made to sum up in the end: what GraphX does, which comes to the same as to give it to all alike once ranks
change no more, and to nearly the same before. What Spark takes to start is not counted.
"""

import argparse
import json
import shutil
import tempfile
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

DAMPING = 0.85
TOP = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input")
    parser.add_argument("cores", type=int)
    parser.add_argument("memory")
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    builder = SparkSession.builder.master(f"local[{arguments.cores}]").appName("graphx")
    builder = builder.config("spark.driver.memory", arguments.memory)
    builder = builder.config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.sql.shuffle.partitions", str(arguments.cores))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    jvm = spark._jvm
    graphx = jvm.org.apache.spark.graphx
    of_int = jvm.scala.reflect.ClassTag.Int()
    level = jvm.org.apache.spark.storage.StorageLevel.MEMORY_AND_DISK()
    folder = tempfile.mkdtemp()
    try:
        began = time.monotonic()
        lines = spark.read.text(f"file://{arguments.input}")
        lines = lines.filter(~col("value").rlike("^\\s*([#%].*)?$")).distinct()
        lines.write.text(f"file://{folder}/edges")
        graph = graphx.GraphLoader.edgeListFile(
            spark.sparkContext._jsc.sc(),
            f"file://{folder}/edges",
            False,
            arguments.cores,
            level,
            level,
        )
        vertices = graph.vertices().count()
        edges = graph.edges().count()
        load_seconds = time.monotonic() - began

        began = time.monotonic()
        ranked = graphx.lib.PageRank.run(
            graph, arguments.iterations, 1.0 - DAMPING, of_int, of_int
        )
        # Nothing is there before it is asked for.
        ranked.vertices().count()
        seconds = time.monotonic() - began
        ranked.vertices().saveAsTextFile(f"file://{folder}/ranks")
        ranks = []
        for line in spark.read.text(f"file://{folder}/ranks").toLocalIterator():
            vertex, rank = line.value.strip("()").split(",")
            ranks.append((int(vertex), float(rank) / vertices))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ranks.sort(key=lambda ranked: (-ranked[1], ranked[0]))
    report = {
        "vertices": vertices,
        "edges": edges,
        "iterations": arguments.iterations,
        "load_seconds": load_seconds,
        "seconds_per_iteration": seconds / arguments.iterations,
        "rank_sum": sum(rank for _, rank in ranks),
        "top": [{"vertex": vertex, "rank": rank} for vertex, rank in ranks[:TOP]],
    }
    print(json.dumps(report))
    spark.stop()


if __name__ == "__main__":
    main()
