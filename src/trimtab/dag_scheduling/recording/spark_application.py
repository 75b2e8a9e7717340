"""The little program that runs one TPC-H query as one Spark application.

It runs in a process of its own, once per (query, size, executors), so that every executor is a
newly started JVM and the first task on it shows the true cost of a fresh executor. It imports
nothing of trimtab: the request comes as one JSON file, the answer goes into another one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

# Explicit schemas: without them Spark starts a job of its own to read the parquet footers, and the
# executors would no longer be fresh when the query comes.
TABLE_SCHEMAS: dict[str, str] = {
    "region": "r_regionkey bigint, r_name string, r_comment string",
    "nation": "n_nationkey bigint, n_name string, n_regionkey bigint, n_comment string",
    "supplier": (
        "s_suppkey bigint, s_name string, s_address string, s_nationkey bigint, s_phone string,"
        " s_acctbal decimal(15,2), s_comment string"
    ),
    "customer": (
        "c_custkey bigint, c_name string, c_address string, c_nationkey bigint, c_phone string,"
        " c_acctbal decimal(15,2), c_mktsegment string, c_comment string"
    ),
    "part": (
        "p_partkey bigint, p_name string, p_mfgr string, p_brand string, p_type string,"
        " p_size int, p_container string, p_retailprice decimal(15,2), p_comment string"
    ),
    "partsupp": (
        "ps_partkey bigint, ps_suppkey bigint, ps_availqty int, ps_supplycost decimal(15,2),"
        " ps_comment string"
    ),
    "orders": (
        "o_orderkey bigint, o_custkey bigint, o_orderstatus string, o_totalprice decimal(15,2),"
        " o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int,"
        " o_comment string"
    ),
    "lineitem": (
        "l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber int,"
        " l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2),"
        " l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date,"
        " l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string,"
        " l_comment string"
    ),
}


def run_application(request: dict[str, Any]) -> list[list[str]]:
    """Start the cluster, run the query once and return its rows as text (to check the answers)."""
    # Spark would advertise the machine's own address; this keeps every socket on loopback.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

    builder: Any = SparkSession.builder.master(request["master"]).appName(request["name"])
    for key, value in request["settings"].items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        session.sparkContext.setLogLevel("WARN")
        for table in (table for table in TABLE_SCHEMAS if table in request["sql"]):
            path = str(Path(request["data_folder"]) / table)
            schema = TABLE_SCHEMAS[table]
            session.read.schema(schema).parquet(path).createOrReplaceTempView(table)
        rows = session.sql(request["sql"]).collect()
        return [[str(value) for value in row] for row in rows]
    finally:
        session.stop()


def main(request_path: Path) -> None:
    """Read the request, run it, write the rows where the request says."""
    request = json.loads(request_path.read_text())
    rows = run_application(request)
    Path(request["answer_path"]).write_text(json.dumps(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
