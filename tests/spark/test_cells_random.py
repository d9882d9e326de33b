"""Cells behind values of random pipelines over random nested schemas, against tagged values."""

import os
from typing import Any

import cells_flow as flow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import ANY_MODE, EXAMPLES, Workshop
from oracle import canonical

import whence

pytestmark = [pytest.mark.spark, pytest.mark.slow]
QUESTIONS = 12


@st.composite
def cases(draw: Any) -> tuple[flow.Struct, list[dict[str, Any]], list[flow.Operator]]:
    schema = draw(flow.SCHEMAS)
    return schema, draw(flow.rows_of(schema)), draw(flow.pipelines(schema))


@settings(
    max_examples=3 * EXAMPLES,
    deadline=None,
    derandomize="WHENCE_EXAMPLES" not in os.environ,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(case=cases(), mode=ANY_MODE)
def test_random_pipelines(workshop: Workshop, case: Any, mode: str) -> None:
    schema, rows, operators = case
    check(workshop, schema, rows, operators, mode)


def shown(row: dict[str, Any]) -> str:
    """A row, whatever the order of the entries of its maps."""
    return repr(canonical(row))


def check(
    workshop: Workshop,
    schema: flow.Struct,
    rows: list[dict[str, Any]],
    operators: list[flow.Operator],
    mode: str,
) -> None:
    """Every value of the result must come from the cells that the oracle names."""
    session = workshop.session
    path = str(workshop.folder())
    ddl = ", ".join(f"`{name}` {kind.ddl()}" for name, kind in schema.fields)
    session.createDataFrame(rows, ddl).coalesce(1).write.parquet(path)
    frame = session.read.schema(ddl).parquet(path)
    for operator in operators:
        frame = operator.spark(frame)
    expected = flow.run(operators, flow.source(schema, rows))
    run = whence.capture(frame, archive=workshop.folder(), mode=mode, progress=False)
    got = [row.asDict(recursive=True) for row in run.output.collect()]
    wanted = [
        {name: flow.plain(node) for name, node in row.columns.items()} for row in expected.rows
    ]
    assert sorted(map(shown, got)) == sorted(map(shown, wanted))
    asked = list(flow.questions(expected).items())
    for text, answers in asked[:: len(asked) // (QUESTIONS if mode == "eager" else 3) + 1]:
        trace = run.trace(whence.pattern(text))
        found: dict[str, set[flow.Tag]] = {"contributing": set(), "influencing": set()}
        for cell in trace.cells().to_pylist():
            found[cell["role"]] |= flow.leaves(schema, rows, cell)
        by = set().union(*(one for one, _ in answers))
        near = set().union(*(other for _, other in answers))
        told = (text, mode, operators)
        if trace.grade == "exact":
            assert found["contributing"] == by, told
            assert found["influencing"] - by == near - by, told
        else:
            assert found["contributing"] >= by, told
            assert found["contributing"] | found["influencing"] >= near, told
            assert mode == "lazy", (trace.reasons, *told)
