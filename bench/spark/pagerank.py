"""Ranks a graph with Spark, and prints how long each iteration took and what it found.

    pagerank.py INPUT CORES MEMORY [--iterations N]

This is the example that Spark ships (`examples/src/main/python/pagerank.py`), but that each edge
counts once, that vertices which nothing leads to have a rank too, and that what vertices without
edges have is given to all alike: ranks sum to 1, as those of `shuffle pagerank` do. An iteration
ends when what every vertex was given is there. What Spark takes to start is not counted.
"""

import argparse
import json
import statistics
import time
from operator import add

from pyspark import SparkConf, SparkContext, StorageLevel

DAMPING = 0.85
TOP = 10
# What was given longer ago is nobody's input any more.
ITERATIONS_KEPT = 2


def edge(line):
    source, target = line.split(None, 2)[:2]
    return int(source), int(target)


def contributions(vertex):
    targets, rank = vertex[1]
    # To itself, so that it is not lost if nothing leads to it.
    yield vertex[0], 0.0
    for target in targets:
        yield target, rank / len(targets)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("input")
    parser.add_argument("cores", type=int)
    parser.add_argument("memory")
    parser.add_argument("--iterations", type=int, default=20)
    arguments = parser.parse_args()
    settings = SparkConf().setMaster(f"local[{arguments.cores}]").setAppName("pagerank")
    settings.set("spark.driver.memory", arguments.memory)
    settings.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    context = SparkContext(conf=settings)
    context.setLogLevel("ERROR")
    partitions = arguments.cores

    began = time.monotonic()
    lines = context.textFile(f"file://{arguments.input}", partitions)
    lines = lines.filter(lambda line: line.strip() and line.lstrip()[0] not in "#%")
    edges = lines.map(edge).distinct(partitions)
    # A vertex that leads nowhere has no targets, and is one all the same.
    ends = edges.flatMap(lambda edge: [(edge[0], edge[1]), (edge[1], None)])
    links = ends.groupByKey(partitions).mapValues(
        lambda targets: [target for target in targets if target is not None]
    )
    links = links.persist(StorageLevel.MEMORY_AND_DISK)
    vertices = links.count()
    edge_count = links.map(lambda link: len(link[1])).sum()
    load_seconds = time.monotonic() - began

    ranks = links.mapValues(lambda targets: 1.0 / vertices)
    kept = []
    seconds = []
    for _ in range(arguments.iterations):
        began = time.monotonic()
        # The same partitioning on both sides: the join moves nothing.
        sums = links.join(ranks, partitions).flatMap(contributions).reduceByKey(add, partitions)
        sums = sums.persist(StorageLevel.MEMORY_AND_DISK)
        # Ranks sum to 1, so what was not given is what vertices without edges have: a job less.
        dangling = 1.0 - sums.values().sum()
        to_all = (1.0 - DAMPING + DAMPING * dangling) / vertices
        ranks = sums.mapValues(lambda part, to_all=to_all: to_all + DAMPING * part)
        seconds.append(time.monotonic() - began)
        kept.append(sums)
        if len(kept) > ITERATIONS_KEPT:
            kept.pop(0).unpersist()
    top = ranks.takeOrdered(TOP, key=lambda ranked: (-ranked[1], ranked[0]))
    report = {
        "vertices": vertices,
        "edges": edge_count,
        "iterations": arguments.iterations,
        "load_seconds": load_seconds,
        "seconds_per_iteration": statistics.median(seconds),
        "seconds": seconds,
        "rank_sum": ranks.values().sum(),
        "top": [{"vertex": vertex, "rank": rank} for vertex, rank in top],
    }
    print(json.dumps(report))
    context.stop()


if __name__ == "__main__":
    main()
