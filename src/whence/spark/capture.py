"""Capturing: a pipeline is read, instrumented, run, and its rows and witnesses written.

One Spark job writes the output with its slots. What the rows share (a joined aggregate, a
window's partition, a scalar subquery) is not copied into them: they refer to it by key, and the
eager mode then writes the members of the groups that are referred to, once each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.sql import DataFrame

from whence import plan as ops
from whence.algebra.packing import OVERFLOW, Extent
from whence.algebra.witness import Group, GroupShape, Members, Row, Witness, slots, walk
from whence.plan import Operator, Source
from whence.plan.live import live_columns
from whence.spark import rebuild
from whence.spark.cuts import OPAQUE, find_cut, replaced
from whence.spark.files import stat
from whence.spark.followed import CellSlots, Follow
from whence.spark.gateway import Gateway, Plan
from whence.spark.instrument import Context, Traced, instrument
from whence.spark.instrument.joins import untraced
from whence.spark.instrument.traced import Policy
from whence.spark.members import ROOT, find_members
from whence.spark.normalise import normalise, plan_text, settle
from whence.spark.opaque import Noted, group_shape, members_frame, opaque
from whence.spark.physical import is_storable, physical_names, restored, storable
from whence.spark.read import read_plan
from whence.spark.rebuild import align
from whence.spark.references import referred, refers
from whence.spark.refuse import refuse
from whence.spark.sources import Found, Leaves, find_leaf, own_files
from whence.spark.stored import Shelf, Stored, files_fingerprint
from whence.spark.usercode import find_code

Mode = Literal["eager", "lazy", "auto"]
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Captured:
    """One captured step: its plan, its output, and how its witnesses are to be read."""

    plan: Operator
    pipeline: Operator
    shape: Witness
    output: Stored
    inputs: dict[str, str]
    datasets: tuple[Stored, ...]
    groups: dict[str, tuple[GroupShape, Stored]]
    scopes: dict[str, tuple[str, ...]]
    document: dict[str, Any]
    """The plan as JSON."""
    attachment: bytes
    ordered: bool
    exact: tuple[str, ...]
    notes: tuple[str, ...]
    doubts: dict[str, str]
    cells: dict[str, CellSlots]
    code: dict[str, list[str]]
    """Digests of the user code that operators call, by operator id."""


@dataclass(frozen=True, slots=True)
class Read:
    """A plan beside Spark's own, and what is known of its leaves; both by operator id."""

    operator: Operator
    nodes: dict[str, Plan]
    found: dict[str, Found]

    def parts(self) -> Iterator[tuple[Operator, Plan]]:
        """Operators beside their nodes, in the order of `plan.walk`."""
        return ((op, self.nodes[op.id]) for op in ops.walk(self.operator))


def read(gateway: Gateway, node: Plan) -> Read:
    """The plan of a normalised node, its sources named."""
    operator = read_plan(plan_text(gateway.session, node), (), str(node.schema().json()))
    nodes = {op.id: part for op, part in align(gateway, operator, node)}
    found = {op.id: find_leaf(gateway, nodes[op.id]) for op in ops.sources(operator)}
    refuse(gateway, operator, nodes, found)

    def described(op: Operator) -> Operator:
        if not isinstance(op, Source):
            return op
        leaf = found[op.id]
        name = leaf.name if op.name == op.id else op.name
        return replace(op, name=name, format=leaf.format, location=leaf.location)

    return Read(ops.map_plan(operator, described), nodes, found)


class Capture:
    """Captures one frame into folders that a shelf gives."""

    def __init__(
        self,
        gateway: Gateway,
        shelf: Shelf,
        mode: Mode,
        progress: Progress,
        follow: Follow,
        list_below: int = 0,
    ) -> None:
        self._gateway = gateway
        self._shelf = shelf
        self._mode = mode
        self._progress = progress
        self._follow = follow
        self._list_below = list_below

    def run(self, frame: DataFrame) -> list[Captured]:
        """The steps of a pipeline; the last one makes its result."""
        gateway = self._gateway
        written = settle(gateway.session, gateway.analysed(frame))
        written.setAnalyzed()
        node = normalise(gateway.session, written)
        node.setAnalyzed()
        self._steps: list[Captured] = []
        self._maker = Leaves(gateway, self._shelf)
        schema = frame.schema.json()
        # Spark compares no variants, so rows with such values cannot be found again by them.
        found_again = self._mode != "lazy" or '"variant"' not in schema
        self._capture(node, self._mode if found_again else "eager", schema, written)
        return self._steps

    def _capture(
        self, node: Plan, mode: Mode, schema: str, written: Plan | None = None
    ) -> Captured:
        """Capture a plan: first what must be cut off, each as a step, then what is left.

        `schema` is that of the pipeline as it was written, `written` its plan then.
        """
        gateway = self._gateway
        self._progress("reading the plan")
        pipeline: Operator | None = None
        while True:
            plan = read(gateway, node)
            operator = plan.operator
            pipeline = pipeline or operator
            if mode == "auto" and self._is_small(plan.found):
                mode = "eager"
            cut = find_cut(operator, mode)
            if cut is None or cut is operator:
                break
            part = plan.nodes[cut.id]
            step = self._capture(part, "eager", str(part.schema().json()))
            node = replaced(gateway, operator, node, cut.id, self._stand_in(step, part))
            node.setAnalyzed()
            written = None
        if cut is operator:
            mode = "eager"
        step = self._step(node, plan, mode, schema, written)
        step = replace(step, pipeline=pipeline)
        self._steps.append(step)
        self._shelf.keep(step.output)
        return step

    def _is_small(self, found: dict[str, Found]) -> bool:
        """Whether all sources are files, and of less bytes than the limit for listing."""
        gateway = self._gateway
        if self._list_below <= 0 or any(leaf.format == "range" for leaf in found.values()):
            return False
        uris = {uri for leaf in found.values() for uri in leaf.uris}
        return sum(stat(gateway, uri)[0] for uri in uris) < self._list_below

    def _stand_in(self, step: Captured, node: Plan) -> Plan:
        """What reads a step's output in place of the plan that made it."""
        gateway = self._gateway
        physical = step.output.properties["physical"]
        fields = {f["name"]: f for f in step.output.properties["stored"]["fields"]}
        schema = {"type": "struct", "fields": [fields[name] for name in physical]}
        relation = gateway.read_parquet(step.output.location, json.dumps(schema))
        return restored(gateway, relation, gateway.output(relation), gateway.output(node))

    def _step(
        self, node: Plan, read: Read, mode: Mode, schema: str, written: Plan | None
    ) -> Captured:
        gateway, operator = self._gateway, read.operator
        if isinstance(operator, OPAQUE):
            mode = "eager"
        leaves, inputs, datasets = self._leaves(read, mode)
        read_from = {source: _with_id(datasets, inputs[source]) for source in inputs}
        rows = {source: stored.rows for source, stored in read_from.items()}
        extents = {source: _extent(stored) for source, stored in read_from.items()}
        policy: Policy = "list" if mode == "eager" else "key"
        context = Context(gateway, policy, leaves, rows, extents)
        noted: tuple[Noted, ...] = ()
        exact: tuple[str, ...] = ()
        doubts: dict[str, str] = {}
        cells: dict[str, CellSlots] = {}
        if isinstance(operator, OPAQUE):
            wrapped = opaque(context, operator, node, self._follow)
            traced, noted = wrapped.traced, wrapped.noted
            doubts, cells = wrapped.doubts, wrapped.cells
            exact = (operator.id,) if wrapped.exact else ()
        elif mode == "lazy":
            context.groups[ROOT] = operator
            if leaves or written is None:
                written = untraced(gateway, operator, self._with_snapshots(read, node, leaves))
            traced = Traced(written, {}, Group("", ROOT))
        else:
            traced = instrument(context, operator, node)
            gateway.expect(sum(_size(dataset) for dataset in datasets))
        self._progress("running the pipeline")
        others = exact or noted or mode == "lazy"  # columns that are not the node's own
        width = int(node.output().size())
        columns = traced.plan.output().take(width) if others else node.output()
        fields = json.loads((traced.plan if others else node).schema().json())["fields"][:width]
        with gateway.beside(lambda: _described(gateway, operator, node)) as described:
            try:
                output = self._write(traced, columns, fields, schema)
            except Exception as error:
                if OVERFLOW not in str(error):
                    raise
                self._progress("running the pipeline again, with wider locators")
                context = Context(gateway, policy, leaves, rows)
                traced = instrument(context, operator, node)
                output = self._write(traced, columns, fields, schema)
            groups = self._noted(noted, output)
            scopes = dict(context.scopes)
            if mode == "eager":
                holders = [(traced.shape, output), *((s.element, d) for s, d in groups.values())]
                groups.update(self._groups(context, read, holders, scopes))
        document, attachment, code = described.result()
        return Captured(
            plan=operator,
            pipeline=operator,
            shape=traced.shape,
            output=output,
            inputs=inputs,
            datasets=(*datasets, output, *(stored for _, stored in groups.values())),
            groups=groups,
            scopes=scopes,
            document=document,
            attachment=attachment,
            ordered=_is_ordered(operator),
            exact=exact,
            notes=(),
            doubts=doubts,
            cells=cells,
            code=code,
        )

    def _with_snapshots(self, read: Read, node: Plan, leaves: Mapping[str, Traced]) -> Plan:
        """The plan as it is, but for the sources of which a snapshot was made."""
        gateway = self._gateway

        def leaf(op: Operator, part: Plan) -> Plan:
            if op.id not in leaves:
                return part
            return gateway.project(part.output(), leaves[op.id].plan)

        return rebuild.with_leaves(gateway, read.operator, node, leaf) if leaves else node

    def _leaves(
        self, read: Read, mode: Mode
    ) -> tuple[dict[str, Traced], dict[str, str], list[Stored]]:
        """The traced leaf of each source, the dataset each reads, and those datasets.

        The lazy mode reads what lies in files as it is, so these need none.
        """
        maker, found = self._maker, read.found
        needed = {} if all(f.is_kept for f in found.values()) else _needed(self._gateway, read)
        kept = maker.kept(found, needed)
        leaves: dict[str, Traced] = {}
        inputs: dict[str, str] = {}
        datasets: dict[str, Stored] = {}
        for source in ops.sources(read.operator):
            leaf, columns = found[source.id], kept.get(source.id, ())
            stored = maker.stored(leaf, source.name, columns)
            if mode != "lazy" or not leaf.is_kept:
                leaves[source.id] = maker.traced(leaf, stored, source.id, columns)
            if stored.id not in datasets:
                datasets[stored.id] = _with_own_name(stored, [d.name for d in datasets.values()])
            inputs[source.id] = stored.id
        return leaves, inputs, list(datasets.values())

    def _write(self, traced: Traced, columns: Any, fields: list[Any], schema: str) -> Stored:
        """Rows and slots, in one job; `schema` is the pipeline's own."""
        gateway = self._gateway
        names = [field["name"] for field in fields]
        physical = physical_names(names)
        if physical != names or not is_storable(fields):
            columns = [
                gateway.alias(storable(gateway, a), p)
                for a, p in zip(gateway.items(columns), physical, strict=True)
            ]
        slots = list(traced.slots.values())
        if not names and not slots:
            slots = [gateway.alias(gateway.literal(True), "__whence_row")]
        plan = gateway.project(columns, traced.plan, slots)
        properties = {"columns": names, "physical": physical}
        return self._written(plan, "output", "output", schema, properties, traced.shape)

    def _written(
        self,
        plan: Plan,
        kind: Literal["output", "group"],
        name: str,
        schema: str,
        properties: Any,
        shape: Witness,
    ) -> Stored:
        gateway = self._gateway
        plan.setAnalyzed()
        frame = gateway.frame(plan)
        dataset, folder = self._shelf.new_folder()
        gateway.write_parquet(frame, folder, _write_options(shape))
        files, slot = own_files(gateway, folder)
        counts = [file.rows for file in files]
        return Stored(
            id=dataset,
            kind=kind,
            name=name,
            location=folder,
            schema=schema,
            fingerprint=files_fingerprint(files),
            files=tuple(files),
            rows=None if None in counts else sum(c for c in counts if c is not None),
            properties={**properties, "slot": slot, "stored": json.loads(frame.schema.json())},
        )

    def _groups(
        self,
        context: Context,
        read: Read,
        holders: list[tuple[Witness, Stored]],
        scopes: dict[str, tuple[str, ...]],
    ) -> dict[str, tuple[GroupShape, Stored]]:
        """The members of every group that the output refers to, directly or through other groups.

        An operator's groups are referred to by rows of operators above it, so going down the plan
        finds all references before the members are written.
        """
        gateway = self._gateway
        done: dict[str, tuple[GroupShape, Stored]] = {}
        for op, part in read.parts():
            for group in () if isinstance(op, OPAQUE) else _groups_of(op):
                wanted = [(s, d) for s, d in holders if refers(s, group)]
                if not wanted:
                    continue
                self._progress(f"listing the groups of {op.id}")
                bounds = referred(gateway, wanted, group)
                listing = Context(gateway, "list", context.leaves)
                plan, found = find_members(listing, op, part, group, bounds)
                scopes.update({k: v for k, v in listing.scopes.items() if k not in scopes})
                about = {"group": group}
                stored = self._written(plan, "group", group, "", about, found.element)
                done[group] = (found, stored)
                holders.append((found.element, stored))
        return done

    def _noted(
        self, noted: tuple[Noted, ...], output: Stored
    ) -> dict[str, tuple[GroupShape, Stored]]:
        """The rows that an opaque function had taken, written as groups."""
        gateway = self._gateway
        done: dict[str, tuple[GroupShape, Stored]] = {}
        for side in noted:
            schema = json.dumps(output.properties["stored"])
            frame = gateway.frame(gateway.read_parquet(output.location, schema))
            members = members_frame(frame, side)
            plan = members._jdf.queryExecution().analyzed()
            found, about = group_shape(side), {"group": side.group}
            stored = self._written(plan, "group", side.group, "", about, found.element)
            done[side.group] = (found, stored)
        return done


def _described(
    gateway: Gateway, operator: Operator, node: Plan
) -> tuple[dict[str, Any], bytes, dict[str, list[str]]]:
    """A step's plan as JSON and as bytes, and the digests of the user code in it."""
    attachment = rebuild.to_bytes(gateway, operator, node)
    return ops.to_json(operator), attachment, find_code(gateway, operator, node)


def _groups_of(operator: Operator) -> list[str]:
    match operator:
        case ops.Except():
            return [f"{operator.id}/left"]
        case ops.Intersect():
            return [f"{operator.id}/left", f"{operator.id}/right"]
        case _:
            return [operator.id, f"{operator.id}/scalar"]


def _write_options(shape: Witness) -> dict[str, str]:
    """Options of a Parquet file with a witness's slots.

    Locators hardly repeat: to look each up in a dictionary takes longer than all else that is done
    with it. So it is with the members of a list, which are locators or have one in their number.
    """
    own = {part.slot: part for part in walk(shape) if isinstance(part, Row | Members)}
    parts = [own[slot] for slot in slots(shape) if slot in own]
    columns = [column for column in map(_locator_column, parts) if column]
    return {f"parquet.enable.dictionary#{column}": "false" for column in columns}


def _locator_column(part: Row | Members) -> str | None:
    """The Parquet column of a slot with locators, or of a list with one number for each member."""
    if isinstance(part, Row):
        return part.slot
    bare = part.is_bare and isinstance(part.element, Row)
    return f"{part.slot}.list.element" if part.packed or bare else None


def _with_id(datasets: list[Stored], dataset_id: str) -> Stored:
    return next(dataset for dataset in datasets if dataset.id == dataset_id)


def _extent(stored: Stored) -> Extent:
    """How large a dataset's locators get."""
    slots = [file.slot for file in stored.files] if len(stored.files) > 1 else [0]
    counts = [file.rows for file in stored.files] if stored.files else [stored.rows]
    rows = None if None in counts else max(count for count in counts if count is not None)
    return Extent(max(slots).bit_length(), rows)


def _size(stored: Stored) -> int:
    """The bytes of a dataset's files; those of a range are not in any."""
    return stored.bytes if stored.files else 8 * (stored.rows or 0)


def _is_ordered(operator: Operator) -> bool:
    """Whether the order of the result was asked for."""
    match operator:
        case ops.Sort(whole=whole):
            return whole
        case (
            ops.Project()
            | ops.Filter()
            | ops.Limit()
            | ops.Offset()
            | ops.Generate()
            | ops.Sample()
            | ops.Observe()
            | ops.View()
            | ops.Hint()
        ):
            return _is_ordered(operator.children[0])
        case _:
            return False


def _with_own_name(stored: Stored, taken: list[str]) -> Stored:
    """A name that no other source of the run has."""
    name, number = stored.name, 2
    while name in taken:
        name, number = f"{stored.name}-{number}", number + 1
    return stored if name == stored.name else replace(stored, name=name)


def _needed(gateway: Gateway, read: Read) -> dict[str, set[int]]:
    """For each source, the positions of the columns that the pipeline looks at or gives."""
    live = live_columns(read.operator)
    parts = [(op, part) for op, part in read.parts() if not isinstance(op, ops.Project)]
    looked_at = {i for _, part in parts for i in gateway.referenced_ids(part)}
    needed = {}
    for source in ops.sources(read.operator):
        own = gateway.output(read.found[source.id].node)
        used = live.get(source.id, set())
        needed[source.id] = {
            i
            for i, (column, attribute) in enumerate(zip(source.output, own, strict=True))
            if column.number in used or attribute.exprId().id() in looked_at
        }
    return needed
