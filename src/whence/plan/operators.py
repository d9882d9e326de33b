"""The operators of a plan: pure data, a closed union, one class per kind.

The tree is one to one with the normalised Spark plan: same nodes, same order of children.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from whence.plan.paths import Move, Path


@dataclass(frozen=True, slots=True)
class Column:
    """A column of an operator's output.

    `number` is local to the plan and stands for Spark's expression id: one column keeps its number
    for as long as operators hand it on. `type` is Spark's own text (`array<bigint>`), `?` if it
    cannot be known from the plan's text.
    """

    name: str
    type: str
    nullable: bool
    number: int


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression as stable SQL text, with Spark's class names of the functions in it.

    `label` is its text in labels, where that is another: without what belongs to one plan.
    """

    text: str
    functions: tuple[str, ...] = ()
    deterministic: bool = True
    label: str = ""

    def __str__(self) -> str:
        return self.text


COLLECTING = frozenset({"CollectList", "CollectSet"})
"""Aggregates whose value is the list of their members' values, as Spark names them."""
CHOOSING = frozenset({"Min", "Max", "First", "Last", "AnyValue", "MinBy", "MaxBy", "Mode"})
"""Aggregates that return the value of some row: that row contributes, the others influence."""
AT_A_PLACE = frozenset({"NthValue", "Lag", "Lead"})
"""Window functions that return the value of the row at some place of the frame."""


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One aggregate function: `function` is Spark's class name, `column` the output that holds it.

    The output is the call's value itself only where `whole` says so; else the call is a part of a
    larger expression, as in `sum(a) / count(b)`.
    """

    function: str
    text: str
    arguments: tuple[Expression, ...]
    distinct: bool
    filter: Expression | None
    column: int
    whole: bool
    label: str = ""


SESSION = "session_window"
"""The column of session windows, as Spark names it."""

_OF_PEERS = frozenset({"Rank", "DenseRank", "PercentRank", "CumeDist", "NTile"})


@dataclass(frozen=True, slots=True)
class WindowCall:
    """One window function with its frame as text; `column` is the output that holds it.

    `picks` says that it takes the value of some rows of its frame, or passes over some of them.
    """

    function: str
    text: str
    arguments: tuple[Expression, ...]
    frame: str
    column: int
    picks: bool = False
    label: str = ""

    @property
    def cuts(self) -> tuple[bool, bool]:
        """Whether its frame may begin, and end, between rows that the order does not tell apart."""
        if not self.frame.startswith("ROWS") or self.function in _OF_PEERS:
            return False, False
        return "UNBOUNDED PRECEDING" not in self.frame, "UNBOUNDED FOLLOWING" not in self.frame


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key of a sort order."""

    key: Expression
    ascending: bool
    nulls_first: bool

    def __str__(self) -> str:
        return self.key.text + self._order

    @property
    def label(self) -> str:
        """Its text in labels."""
        return (self.key.label or self.key.text) + self._order

    @property
    def _order(self) -> str:
        order = "" if self.ascending else " DESC"
        if self.nulls_first != self.ascending:
            order += " NULLS FIRST" if self.nulls_first else " NULLS LAST"
        return order


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    """What all operators have.

    `id` is kind and number, counted in the order of `tree.walk`. `subqueries` are the plans of the
    uncorrelated scalar subqueries in its expressions. `node` is Spark's class name.

    `reads` are the input paths that it looks at, and `decides` those among them that have a say in
    whether and where a row appears at all (predicates, grouping and sort keys, what is unnested);
    the others only matter to the columns whose `moves` name them.
    """

    kind: ClassVar[str]

    id: str
    node: str
    output: tuple[Column, ...]
    children: "tuple[Operator, ...]" = ()
    subqueries: "tuple[Operator, ...]" = ()
    deterministic: bool = True
    reads: tuple[Path, ...] = ()
    decides: tuple[Path, ...] = ()
    moves: tuple[Move, ...] = ()

    def __post_init__(self) -> None:
        if not self.id.startswith(self.kind + "-"):
            raise ValueError(f"the id {self.id!r} is not that of a {self.kind}")

    @property
    def inputs(self) -> "tuple[Operator, ...]":
        """Children, then subqueries: what `Path.input` counts."""
        return self.children + self.subqueries


@dataclass(frozen=True, slots=True, kw_only=True)
class Source(_Operator):
    """A leaf: a dataset somebody else wrote, or rows that have no other origin."""

    kind = "source"
    name: str
    format: str
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRow(_Operator):
    """The single empty row under a SELECT without FROM."""

    kind = "onerow"


@dataclass(frozen=True, slots=True, kw_only=True)
class View(_Operator):
    """The name under which a plan is known; hands its child's rows on."""

    kind = "view"
    name: str
    temporary: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(_Operator):
    """One expression per output column."""

    kind = "project"
    projections: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter(_Operator):
    """The rows for which the predicate is true."""

    kind = "filter"
    predicate: Expression


JoinType = Literal["inner", "left", "right", "full", "cross", "semi", "anti", "existence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Join(_Operator):
    """Two inputs; for an existence join `existence` is the column that says if there was a match.

    `single` marks a left join that fails on a second match (a scalar subquery).
    """

    kind = "join"
    type: JoinType
    predicate: Expression | None = None
    existence: Column | None = None
    single: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Union(_Operator):
    """All rows of all inputs, columns by position."""

    kind = "union"


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(_Operator):
    """One row per group; without aggregate calls this is a distinct."""

    kind = "aggregate"
    keys: tuple[Expression, ...]
    results: tuple[Expression, ...]
    aggregates: tuple[AggregateCall, ...] = ()

    @property
    def in_python(self) -> bool:
        """Whether a Python function makes the values; Spark lets no aggregate stand beside it."""
        return any(call.function == "PythonUDAF" for call in self.aggregates)

    @property
    def merges(self) -> bool:
        """Whether its groups are session windows, where rows of several keys become one group."""
        return any(SESSION in key.text for key in self.keys)

    @property
    def collects(self) -> bool:
        """Whether it collects values into lists, in an order of which Spark promises nothing."""
        return any(call.function in COLLECTING for call in self.aggregates)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window(_Operator):
    """Each row with functions over its partition."""

    kind = "window"
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    functions: tuple[WindowCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sort(_Operator):
    """Order of the whole result, or within each partition."""

    kind = "sort"
    order: tuple[SortKey, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit(_Operator):
    """The first rows: of the whole result, or of each partition (`local`)."""

    kind = "limit"
    limit: Expression
    local: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset(_Operator):
    """All but the first rows."""

    kind = "offset"
    offset: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail(_Operator):
    """The last rows."""

    kind = "tail"
    limit: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Generate(_Operator):
    """Each row beside each row that a generator (explode, inline, stack, ...) makes of it."""

    kind = "generate"
    generator: Expression
    function: str
    outer: bool
    generated: tuple[Column, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expand(_Operator):
    """Each row once per list of projections (rollup, cube, grouping sets, unpivot)."""

    kind = "expand"
    projections: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(_Operator):
    """A random part of the rows; without a seed it is another one every time."""

    kind = "sample"
    lower: float
    upper: float
    replacement: bool
    seed: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(_Operator):
    """Each row with its number among all rows, in the order in which they lie."""

    kind = "number"
    column: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Repartition(_Operator):
    """Rows moved between partitions: repartition, coalesce, rebalance; no row changes."""

    kind = "repartition"
    how: str
    partitions: int | None
    keys: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint(_Operator):
    """A hint to Spark's planner; hands rows on."""

    kind = "hint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observe(_Operator):
    """`df.observe`: counts on the side; hands rows on."""

    kind = "observe"
    name: str
    metrics: tuple[Expression, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Except(_Operator):
    """EXCEPT ALL (plain EXCEPT becomes an anti join)."""

    kind = "except"
    all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Intersect(_Operator):
    """INTERSECT ALL (plain INTERSECT becomes a semi join)."""

    kind = "intersect"
    all: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatches(_Operator):
    """mapInPandas, mapInArrow: Python over batches of rows."""

    kind = "mapbatches"
    function: str
    form: str = ""
    """What the function is given: `pandas` or `arrow`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapGroups(_Operator):
    """applyInPandas, applyInArrow: Python over each group."""

    kind = "mapgroups"
    function: str
    keys: tuple[Expression, ...]
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MapCogroups(_Operator):
    """cogroup(...).applyInPandas: Python over the groups of two inputs that share keys."""

    kind = "mapcogroups"
    function: str
    left_keys: tuple[Expression, ...]
    right_keys: tuple[Expression, ...]
    form: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayFunction(_Operator):
    """A function of arrays over columns of its inputs; it runs outside Spark."""

    kind = "arrayfunction"
    function: str


Operator: TypeAlias = (
    Source
    | OneRow
    | View
    | Project
    | Filter
    | Join
    | Union
    | Aggregate
    | Window
    | Sort
    | Limit
    | Offset
    | Tail
    | Generate
    | Expand
    | Sample
    | Number
    | Repartition
    | Hint
    | Observe
    | Except
    | Intersect
    | MapBatches
    | MapGroups
    | MapCogroups
    | ArrayFunction
)
