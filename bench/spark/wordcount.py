"""Counts the words of a text with Spark, and prints how long that took and what it found.

    wordcount.py INPUT CORES MEMORY [rdd | frame]

`rdd` is the example that Spark ships, on text that is not decoded; `frame`, the default and the
faster one, says the same in Spark's query language, which runs inside the JVM. Words lie between
ASCII whitespace. The checksum is that of `timely_wordcount`: CRC-32 times count, summed modulo
2^64. It is computed once the time has been taken, as is the list of the most frequent words.
What Spark takes to start is not counted.
"""

import json
import sys
import time
import zlib

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

TOP = 10


def by_rdd(session, source):
    # Python splits bytes at ASCII whitespace, and texts at all that Unicode has.
    lines = session.sparkContext.textFile(f"file://{source}", use_unicode=False)
    words = lines.flatMap(lambda line: line.split())
    return words.map(lambda word: (word, 1)).reduceByKey(lambda one, other: one + other)


def by_frame(session, source):
    lines = session.read.text(f"file://{source}")
    words = lines.select(f.explode(f.split("value", r"[ \t\n\x0C\r]+")).alias("word"))
    return words.where("word != ''").groupBy("word").count()


def main():
    source, cores, memory, *way = sys.argv[1:]
    is_rdd = way == ["rdd"]
    if way not in ([], ["rdd"], ["frame"]):
        sys.exit(__doc__)
    builder = SparkSession.builder.master(f"local[{cores}]").appName("wordcount")
    builder.config("spark.driver.memory", memory)
    builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    # A partition a core is enough for so few distinct words: the default of 200 only costs.
    builder.config("spark.sql.shuffle.partitions", cores)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    began = time.monotonic()
    counts = (by_rdd if is_rdd else by_frame)(session, source).cache()
    distinct = counts.count()
    seconds = time.monotonic() - began
    pairs = [(bytes(word) if is_rdd else word.encode(), count) for word, count in counts.collect()]
    pairs.sort(key=lambda pair: (-pair[1], pair[0]))
    report = {
        "way": "rdd" if is_rdd else "frame",
        "words": sum(count for _, count in pairs),
        "distinct": distinct,
        "seconds": seconds,
        "checksum": sum(zlib.crc32(word) * count for word, count in pairs) % 2**64,
        "top": [
            {"word": word.decode(errors="replace"), "count": count} for word, count in pairs[:TOP]
        ],
    }
    print(json.dumps(report))
    session.stop()


if __name__ == "__main__":
    main()
