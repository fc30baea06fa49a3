"""Sorts records of 100 bytes by their first 10 with Spark, and prints how long that took.

    sort.py INPUT OUTPUT CORES MEMORY

Each partition is a file of OUTPUT, in order. What Spark takes to start is not counted.
"""

import json
import os
import sys
import time

from pyspark import SparkConf, SparkContext

RECORD_BYTES = 100
KEY_BYTES = 10


def main():
    source, output, cores, memory = sys.argv[1:]
    settings = SparkConf().setMaster(f"local[{cores}]").setAppName("sort")
    settings.set("spark.driver.memory", memory)
    settings.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
    # Its temporary files where the output is: on the same disk as those of the program beside it.
    settings.set("spark.local.dir", os.path.dirname(output))
    context = SparkContext(conf=settings)
    context.setLogLevel("ERROR")
    began = time.monotonic()
    os.makedirs(output)

    def write(index, records):
        with open(os.path.join(output, f"part-{index:05}"), "wb") as part:
            for _, record in records:
                part.write(record)
        yield index

    records = context.binaryRecords(f"file://{source}", RECORD_BYTES)
    keyed = records.map(lambda record: (bytes(record[:KEY_BYTES]), bytes(record)))
    keyed.sortByKey().mapPartitionsWithIndex(write).count()
    print(json.dumps({"seconds": time.monotonic() - began}))
    context.stop()


if __name__ == "__main__":
    main()
