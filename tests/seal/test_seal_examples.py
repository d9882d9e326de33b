"""The examples of the PROVision text: 3.1.3, 5.1.1 with figures 23 and 24, 5.2.2."""

from pathlib import Path
from typing import Any

import pytest
from seal_kit import JOIN, edges, tokens, write_sources

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# What the rows of example 3.1.3 and their join are called, in every run, on every machine.
R1 = "7ee00d2a37348e911585f56da71901e3304d235c4614329ae0f14d581aa97a66"
S2 = "a41c366de405c371fcb14cf71de9cfbe67a654718c86dbf4071c90b521e6b76a"
R1_S2 = "e54cbd5458e5ab58e9efeb1d17f6aefa47dd925516581615e77b1d3397b79114"


def test_a_join_is_two_edges_and_a_projection_stores_nothing_new(
    spark: Any, tmp_path: Path
) -> None:
    """Example 5.2.2: ⟨r1, ·, 0, h⟩ and ⟨s2, ·, 1, h⟩.

    Example 3.1.3: the second query's provenance is the first one's.
    """
    write_sources(spark, tmp_path)
    place = tmp_path / "archive"
    whence.capture(spark.sql(JOIN), name="one", archive=place, mode="lazy", seal=True)
    archive = whence.open(place)
    assert sorted(tokens(archive)) == sorted([R1, S2, R1_S2])
    (joined,) = archive.run("one").nodes()
    found = [edge for edge in edges(archive) if edge[3] == joined]
    assert [(edge[1], edge[2]) for edge in found] == [
        ("join inner, sequence@0 = sequence@1", 0),
        ("join inner, sequence@0 = sequence@1", 1),
    ]
    described = [archive.sealed.nodes([edge[0]])[0] for edge in found]
    assert [(node.token, node.text) for node in described] == [(R1, "ref[0]"), (S2, "input[1]")]
    assert archive.sealed.nodes([joined])[0].token == R1_S2
    whence.capture(
        spark.sql(f"SELECT sequence FROM ({JOIN})"), name="two", archive=place, seal=True
    )
    archive = whence.open(place)
    assert sorted(tokens(archive)) == sorted([R1, S2, R1_S2])
    assert archive.run("one").nodes() == archive.run("two").nodes()
    used = {use.name: use for use in archive.sealed.usage()}
    assert used["one"].nodes == used["one"].shared_nodes == 3


def test_user_code_is_a_node_between_rows_and_join(spark: Any, tmp_path: Path) -> None:
    """Example 5.1.1, figures 23 and 24: r · pfx(r) · s · pfx(s) for both results."""
    from pyspark.sql.functions import udf

    pfx = udf(lambda sequence: sequence[:4], "string")
    for name, rows, schema in (
        ("r", [("abcetd", "cccatg"), ("edceeq", "aaattg")], "name string, refseq string"),
        ("s", [("cccagc",), ("aaatgc",)], "seq string"),
    ):
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(tmp_path / name))
    r = spark.read.parquet(str(tmp_path / "r")).withColumn("p", pfx("refseq"))
    s = spark.read.parquet(str(tmp_path / "s")).withColumn("q", pfx("seq"))
    joined = r.join(s, r.p == s.q).where("length(name) = 6")
    run = whence.capture(joined, archive=tmp_path / "archive", mode="eager", seal=True)
    archive = whence.open(tmp_path / "archive")
    nodes = archive.sealed.find(limit=100)
    forms = [node.form for node in nodes]
    assert (forms.count("source"), forms.count("joint")) == (4, 6)
    for row in run.nodes():
        depths = [depth for _, depth in archive.sealed.closure([row])]
        assert depths == [0, 1, 1, 2, 2]
    codes = run.stored.steps[-1].document["code"]
    assert len({digest for digests in codes.values() for digest in digests}) == 1
