"""Pipelines of every kind that a reader of plans meets, over a few small tables."""

from collections.abc import Callable
from typing import Any

Case = Callable[[Any], Any]

TABLES = """
CREATE OR REPLACE TEMP VIEW t AS SELECT * FROM VALUES
  (1, 'a', 10.5D, array(1, 2), named_struct('x', 1, 'y', 'q'), map('k', 1),
   array(named_struct('p', 1, 'q', 'u'), named_struct('p', 2, 'q', 'v'))),
  (2, 'b', 20.0D, array(3), named_struct('x', 2, 'y', 'r'), map('k', 2, 'l', 3), array()),
  (3, 'b', NULL, array(), named_struct('x', 1, 'y', 'q'), map(),
   array(named_struct('p', 5, 'q', 'w'))),
  (4, NULL, 1.5D, NULL, NULL, NULL, NULL)
  AS t(a, b, d, xs, s, m, ss);
CREATE OR REPLACE TEMP VIEW u AS SELECT * FROM VALUES
  (1, 'x', 100), (2, 'y', 200), (2, 'z', 300), (9, NULL, NULL) AS u(a, c, e)
"""

SQL = {
    # rows
    "select_star": "SELECT * FROM t",
    "filter": "SELECT a FROM t WHERE a > 1 AND (b = 'b' OR d IS NULL) AND NOT (a IN (7, 8))",
    "order_limit_offset": "SELECT a, d FROM t ORDER BY d DESC NULLS LAST, a LIMIT 2 OFFSET 1",
    "one_row": "SELECT 1 AS one, 'it''s' AS text, DATE '2020-02-29' AS day",
    "values": "SELECT * FROM VALUES (1, 'x'), (2, 'y') AS v(n, w)",
    "range_function": "SELECT id FROM range(3)",
    "explode_function": "SELECT * FROM explode(array(1, 2))",
    "identifier": "SELECT * FROM IDENTIFIER('u')",
    "hint": "SELECT /*+ REPARTITION(3) */ a FROM t",
    "cluster_by": "SELECT a FROM t CLUSTER BY a",
    # joins
    "inner_join": "SELECT t.a, c FROM t JOIN u ON t.a = u.a AND e > 100",
    "left_join": "SELECT t.a, u.a FROM t LEFT JOIN u ON t.a = u.a",
    "right_join": "SELECT t.a, c FROM t RIGHT JOIN u ON t.a = u.a",
    "full_join": "SELECT coalesce(t.a, u.a) AS a, b, c FROM t FULL JOIN u ON t.a = u.a",
    "cross_join": "SELECT t.a, c FROM t CROSS JOIN u",
    "semi_join": "SELECT a FROM t LEFT SEMI JOIN u ON t.a = u.a",
    "anti_join": "SELECT a FROM t LEFT ANTI JOIN u ON t.a = u.a",
    "using_join": "SELECT a, b, c FROM t JOIN u USING (a)",
    "self_join": "SELECT t1.a, t2.a FROM t t1 JOIN t t2 ON t1.b = t2.b AND t1.a < t2.a",
    "broadcast_hint": "SELECT /*+ BROADCAST(u) */ t.a, c FROM t JOIN u ON t.a = u.a",
    "lateral_join": "SELECT a, z FROM t, LATERAL (SELECT t.a + 1 AS z)",
    "lateral_aggregate": "SELECT t.a, top FROM t, LATERAL "
    "(SELECT max(e) AS top FROM u WHERE u.a = t.a)",
    # subqueries
    "in": "SELECT a FROM t WHERE a IN (SELECT a FROM u WHERE e > 100)",
    "not_in": "SELECT a FROM t WHERE a NOT IN (SELECT a FROM u)",
    "in_pair": "SELECT a FROM t WHERE (a, b) IN (SELECT a, c FROM u)",
    "exists": "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND e > t.a)",
    "not_exists": "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a)",
    "exists_uncorrelated": "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE e > 100)",
    "existence": "SELECT a FROM t WHERE a IN (SELECT a FROM u) OR b = 'b'",
    "existence_in_select": "SELECT a, EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AS known FROM t",
    "existence_in_case": "SELECT CASE WHEN a IN (SELECT a FROM u) THEN 1 ELSE 0 END AS f FROM t",
    "in_join_condition": "SELECT t.a FROM t JOIN u ON t.a = u.a AND t.a IN (SELECT a FROM u)",
    "scalar": "SELECT a, (SELECT max(e) FROM u) AS top FROM t",
    "scalar_in_filter": "SELECT a FROM t WHERE d > (SELECT avg(d) FROM t)",
    "scalar_correlated": "SELECT a, (SELECT max(e) FROM u WHERE u.a = t.a) AS top FROM t",
    "scalar_count": "SELECT a, (SELECT count(*) FROM u WHERE u.a = t.a) AS n FROM t",
    "scalar_inequality": "SELECT a, (SELECT sum(e) FROM u WHERE u.a > t.a) AS s FROM t",
    "scalar_in_order": "SELECT a FROM t ORDER BY abs(a - (SELECT min(a) FROM u))",
    "scalar_twice": "SELECT a + (SELECT max(a) FROM u) AS p, a - (SELECT min(a) FROM u) AS m "
    "FROM t",
    "scalar_nested": "SELECT a FROM t WHERE a >= (SELECT min(a) FROM u WHERE e > "
    "(SELECT min(e) FROM u))",
    "scalar_over_in": "SELECT a FROM t WHERE a >= (SELECT avg(a) FROM u WHERE a IN "
    "(SELECT a FROM t))",
    "exists_in_scalar": "SELECT a FROM t WHERE d = (SELECT max(d) FROM t t2 WHERE t2.b = t.b AND "
    "EXISTS (SELECT 1 FROM u WHERE u.a = t2.a))",
    "exists_in_exists": "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND "
    "EXISTS (SELECT 1 FROM t t2 WHERE t2.a = u.a AND t2.b = u.c))",
    "not_in_in_exists": "SELECT a FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.a = t.a AND "
    "u.e NOT IN (SELECT a FROM t t2 WHERE t2.a = u.a))",
    "cte_twice": "WITH w AS (SELECT a, count(*) AS n FROM u GROUP BY a) "
    "SELECT t.a, n FROM t JOIN w ON t.a = w.a WHERE n = (SELECT max(n) FROM w)",
    # sets
    "union": "SELECT a FROM t UNION SELECT a FROM u",
    "union_all": "SELECT a, b FROM t UNION ALL SELECT a, c FROM u",
    "intersect": "SELECT a FROM t INTERSECT SELECT a FROM u",
    "except": "SELECT a FROM t EXCEPT SELECT a FROM u",
    "intersect_all": "SELECT a FROM u INTERSECT ALL SELECT a FROM u",
    "except_all": "SELECT a FROM u EXCEPT ALL SELECT a FROM t",
    "distinct": "SELECT DISTINCT a FROM u",
    # groups
    "group": "SELECT b, sum(a) AS s, count(*) AS n, avg(d) / count(d) AS r FROM t GROUP BY b",
    "group_expression": "SELECT a % 2 AS odd, min(d) AS m FROM t GROUP BY a % 2 HAVING max(a) > 1",
    "group_all": "SELECT b, sum(a) AS s FROM t GROUP BY ALL",
    "group_ordinal": "SELECT b, count(*) AS n FROM t GROUP BY 1 ORDER BY 2, 1",
    "global": "SELECT max(a) AS m, count(DISTINCT b) FILTER (WHERE a > 1) AS n FROM t",
    "aggregates": "SELECT any_value(a) AS v, count_if(a > 1) AS c, bool_or(a > 1) AS o, "
    "approx_count_distinct(a) AS k, percentile(a, 0.5) AS p, max_by(b, a) AS x, mode(b) AS y, "
    "listagg(b, ',') WITHIN GROUP (ORDER BY a) AS l, stddev(d) AS sd, corr(a, d) AS r FROM t",
    "rollup": "SELECT a, b, sum(d) AS s, grouping_id() AS g FROM t GROUP BY ROLLUP (a, b)",
    "cube": "SELECT a, b, count(*) AS n FROM t GROUP BY CUBE (a, b)",
    "grouping_sets": "SELECT a, b, count(*) AS n FROM t GROUP BY GROUPING SETS ((a), (b), ())",
    "pivot": "SELECT * FROM (SELECT a, b, d FROM t) PIVOT (sum(d) FOR b IN ('a', 'b'))",
    "pipe": "FROM t |> WHERE a > 1 |> AGGREGATE count(*) AS n GROUP BY b |> ORDER BY n, b",
    # windows
    "window": "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) AS r, "
    "lag(a, 1) OVER (ORDER BY a) AS before, sum(d) OVER (PARTITION BY b ORDER BY a "
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, count(*) OVER () AS n FROM t",
    "window_range": "SELECT a, sum(a) OVER (ORDER BY a RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING) "
    "AS s, ntile(2) OVER (ORDER BY a) AS q, first_value(b) OVER (ORDER BY a DESC) AS f FROM t",
    "qualify": "SELECT a, b FROM t QUALIFY rank() OVER (PARTITION BY b ORDER BY a) = 1",
    # nested values
    "explode": "SELECT a, explode(xs) AS x FROM t",
    "posexplode_outer": "SELECT a, p, x FROM t LATERAL VIEW OUTER posexplode(xs) v AS p, x",
    "explode_map": "SELECT a, explode(m) FROM t",
    "inline": "SELECT a, inline(ss) FROM t",
    "stack": "SELECT stack(2, a, s.x, a + 1, 4) AS (l, r) FROM t",
    "json_tuple": "SELECT a, v FROM t LATERAL VIEW json_tuple(b, 'k') j AS v",
    "structs": "SELECT named_struct('n', named_struct('m', s)).n.m.x AS deep, s.y AS y, "
    "struct(a, b AS bb) AS st, cast(s AS struct<u: string, v: string>) AS cs FROM t",
    "arrays": "SELECT xs[0] AS first, try_element_at(xs, 2) AS second, get(xs, a) AS nth, "
    "ss.p AS ps, arrays_zip(xs, ss.q) AS zipped, flatten(array(xs, xs)) AS flat, "
    "concat(xs, array(a)) AS more, sort_array(xs) AS sorted, array_append(xs, a) AS longer FROM t "
    "WHERE size(xs) > 0",
    "maps": "SELECT m['k'] AS k, map_keys(m) AS ks, map_from_arrays(array(b), array(a)) AS mf, "
    "transform_values(m, (k, v) -> v + a) AS tv, map_filter(m, (k, v) -> v > 1) AS mm FROM t "
    "WHERE b IS NOT NULL",
    "lambdas": "SELECT transform(ss, (x, i) -> struct(x.q, i, b)) AS tr, "
    "filter(ss, x -> x.p > a) AS f, exists(ss, x -> x.q = b) AS e, "
    "aggregate(xs, 0, (acc, x) -> acc + x, acc -> acc * 2) AS g, "
    "zip_with(xs, xs, (l, r) -> l + r) AS z FROM t",
    "json": "SELECT from_json(b, 'q int').q AS q, to_json(s) AS j, "
    "get_json_object(b, '$.q') AS g FROM t",
    "choices": "SELECT CASE WHEN a > 1 THEN b WHEN d > 2 THEN s.y END AS c, "
    "coalesce(b, s.y, '-') AS o, nvl(b, 'x') AS n, nullif(b, 'x') AS nn, if(d > 2, s.x, a) AS i, "
    "greatest(a, s.x) AS gr FROM t",
    "collect": "SELECT b, collect_list(s) AS l, collect_set(a) AS k, "
    "collect_list(struct(a, s.y)) AS st, max(s) AS top FROM t GROUP BY b",
    "dates": "SELECT DATE '2020-01-31' + INTERVAL '1' MONTH AS d1, year(DATE '2020-01-31') AS y, "
    "TIMESTAMP '2020-01-31 10:00:00' + INTERVAL '2' HOUR AS t1, "
    "date_trunc('MONTH', TIMESTAMP '2020-01-31 10:00:00') AS m FROM t",
    "strings": "SELECT upper(b) || '-' || substring(b, 1, 1) AS s, b LIKE 'a%' AS l, "
    "b NOT LIKE 'a%' AS nl, b RLIKE '^a' AS r, -a AS neg, a BETWEEN 1 AND 2 AS bt FROM t",
    "collation": "SELECT b COLLATE UNICODE_CI AS b FROM t WHERE b COLLATE UNICODE_CI = 'A'",
    "variant": """SELECT parse_json('{"a": 1}'):a::int AS v FROM t""",
    "odd_names": "SELECT a AS `a.b`, b AS `select`, s AS `s``t` FROM t",
    "tablesample_rows": "SELECT a FROM t TABLESAMPLE (2 ROWS)",
    "tablesample_percent": "SELECT a FROM t TABLESAMPLE (100 PERCENT)",
}


def _frames() -> dict[str, Case]:
    import pandas as pd
    from pyspark.sql import functions as f

    def shout(text):  # type: ignore[no-untyped-def]
        return text and text.upper() + "!"

    def plus(numbers: pd.Series) -> pd.Series:
        return numbers + 1

    def same(batches: Any) -> Any:
        yield from batches

    def whole(group: Any) -> Any:
        return group

    def left(one: Any, other: Any) -> Any:
        return one

    u = "a int, c string, e int"

    return {
        "range": lambda s: s.range(1, 7, 2),
        "create": lambda s: s.createDataFrame([(1, "x"), (2, None)], "n int, w string"),
        "with_column": lambda s: s.table("t").withColumn("a", f.col("a") * 2).drop("m", "ss"),
        "with_field": lambda s: s.table("t").select(
            f.col("s").withField("z", f.col("a")).dropFields("x").alias("s")
        ),
        "union_by_name": lambda s: s.table("u").unionByName(
            s.table("t").select("a", "d"), allowMissingColumns=True
        ),
        "unpivot": lambda s: s.table("t").unpivot(["a"], ["s.x", f.col("a") + 1], "name", "value"),
        "drop_duplicates": lambda s: s.table("u").dropDuplicates(["a"]),
        "pivot_frame": lambda s: s.table("t").groupBy("a").pivot("b", ["a", "b"]).agg(f.sum("d")),
        "repartition": lambda s: s.table("u").repartition(3, "a").coalesce(2).repartition(2),
        "repartition_range": lambda s: (
            s.table("u").repartitionByRange(2, "a").sortWithinPartitions("c")
        ),
        "rebalance": lambda s: s.table("u").hint("rebalance"),
        "sample": lambda s: s.table("u").sample(fraction=0.5, seed=3),
        "observe": lambda s: s.table("u").observe("seen", f.count("*").alias("n")),
        "udf": lambda s: s.table("t").select(f.udf(shout, "string")("b").alias("loud")),
        "pandas_udf": lambda s: s.table("t").select(f.pandas_udf(plus, "int")("a").alias("next")),
        "map_in_pandas": lambda s: s.table("u").mapInPandas(same, u),
        "map_in_arrow": lambda s: s.table("u").mapInArrow(same, u),
        "apply_in_pandas": lambda s: s.table("u").groupBy("a").applyInPandas(whole, u),
        "apply_in_arrow": lambda s: s.table("u").groupBy("a").applyInArrow(whole, u),
        "cogroup": lambda s: (
            s.table("u")
            .groupBy("a")
            .cogroup(s.table("t").select("a", "b").groupBy("a"))
            .applyInPandas(left, u)
        ),
        "checkpoint": lambda s: s.table("u").localCheckpoint().filter("a > 1"),
        "rdd": lambda s: s.createDataFrame(s.sparkContext.parallelize([(1, 2)]), ["p", "q"]),
        "watermark_in_batch": lambda s: s.sql("SELECT TIMESTAMP '2020-01-01' AS ts").withWatermark(
            "ts", "1 hour"
        ),
        "transpose": lambda s: s.table("u").select("c", "a").filter("c = 'x'").transpose(),
        "null_column": lambda s: s.table("t").select("a", f.lit(None).alias("nothing")),
    }


def cases() -> dict[str, Case]:
    """Every case by name; each makes a DataFrame of a session that has the tables."""
    made: dict[str, Case] = {name: _sql(text) for name, text in SQL.items()}
    return made | _frames()


def _sql(text: str) -> Case:
    return lambda spark: spark.sql(text)
