"""The DAG as a drawing: a column for each layer, edges that go round the boxes. Pure geometry, in pixels.

Layers are longest paths. An edge that spans several columns has a waypoint in each column between, shared by all
edges of its start. Within a column the order follows the neighbours' mean (Sugiyama's barycentre), and the heights
are the least-squares fit to the neighbours' under the distances that must be kept (pool adjacent violators).
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_BOX, _WAYPOINT, _GAP, _COLUMN_GAP, _MARGIN = 42, 6, 14, 64, 12
_CHARACTER, _PADDING, _LONGEST = 7.4, 26, 30
_SWEEPS = 8
_GRID = 4
"""Columns of the boxes that no edge touches."""


@dataclass(frozen=True)
class Vertex:
    """What is drawn of a stage: `before` are the stages that come before it, which stand earlier in the list."""

    id: str
    note: str
    kind: str
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class Box:
    """A stage's box: its left upper corner, its size, its name cut to what fits."""

    vertex: Vertex
    label: str
    x: int
    y: int
    width: int
    height: int = _BOX


@dataclass(frozen=True)
class Drawing:
    """Boxes, and between them lines and arrows, as SVG path data."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    arrows: tuple[str, ...]


Key = tuple[str, int]
"""A stage in its own column, or the waypoint of its edges in a later one."""


@dataclass(frozen=True)
class _Layout:
    layer: Mapping[str, int]
    columns: Sequence[list[Key]]
    left: Mapping[Key, list[Key]]
    right: Mapping[Key, list[Key]]

    def height(self, key: Key) -> int:
        return _BOX if self.layer[key[0]] == key[1] else _WAYPOINT


def drawing_of(vertices: Sequence[Vertex]) -> Drawing:
    """Return the drawing of stages in the order in which they run. Equal input gives equal output."""
    edges = _needed(vertices)
    touched = {end for edge in edges for end in edge}
    layout = _layered([v for v in vertices if v.id in touched], edges)
    _ordered(layout)
    middle = _heights(layout)
    xs, widths = _columns(layout)
    by_id = {v.id: v for v in vertices}
    boxes = [
        Box(by_id[id_], _cut(id_), xs[level], round(middle[id_, level]) - _BOX // 2, widths[level])
        for id_, level in layout.layer.items()
    ]
    ends = (xs, [x + width for x, width in zip(xs, widths, strict=True)])
    paths = _paths(layout, middle, ends)
    arrows = [path for path, last in paths if last]
    lines = [path for path, last in paths if not last]
    bottom = max((box.y + _BOX for box in boxes), default=0)
    boxes += _grid([v for v in vertices if v.id not in touched], bottom)
    number = {v.id: i for i, v in enumerate(vertices)}
    boxes.sort(key=lambda box: number[box.vertex.id])
    width = max((box.x + box.width for box in boxes), default=0) + _MARGIN
    height = max((box.y + box.height for box in boxes), default=0) + _MARGIN
    return Drawing(width, height, tuple(boxes), tuple(lines), tuple(arrows))


def _needed(vertices: Sequence[Vertex]) -> list[tuple[str, str]]:
    """Return the edges without those that follow from others."""
    above: dict[str, set[str]] = {}
    edges = []
    for vertex in vertices:
        parents = [id_ for id_ in dict.fromkeys(vertex.before) if id_ in above]
        implied = {far for parent in parents for far in above[parent]}
        above[vertex.id] = implied | set(parents)
        edges += [(parent, vertex.id) for parent in parents if parent not in implied]
    return edges


def _layered(vertices: Sequence[Vertex], edges: Sequence[tuple[str, str]]) -> _Layout:
    layer = {v.id: 0 for v in vertices}
    for parent, child in edges:  # a child's edges stand behind those of its parents
        layer[child] = max(layer[child], layer[parent] + 1)
    fed = {child for _, child in edges}
    for id_ in [v.id for v in vertices if v.id not in fed]:  # what needs nothing stands close to what needs it
        layer[id_] = min(layer[child] for parent, child in edges if parent == id_) - 1
    columns: list[list[Key]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for id_, level in layer.items():
        columns[level].append((id_, level))
    left: dict[Key, list[Key]] = defaultdict(list)
    right: dict[Key, list[Key]] = defaultdict(list)
    for parent, child in edges:
        for level in range(layer[parent], layer[child]):
            here = (parent, level)
            there = (child if level + 1 == layer[child] else parent, level + 1)
            if there not in right[here]:
                right[here].append(there)
                left[there].append(here)
                if there[0] == parent:
                    columns[level + 1].append(there)
    return _Layout(layer, columns, left, right)


def _ordered(layout: _Layout) -> None:
    """Order each column by where its neighbours stand, from the left and from the right in turn."""
    place = {key: i for column in layout.columns for i, key in enumerate(column)}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = layout.left if forward else layout.right
        for column in layout.columns if forward else reversed(layout.columns):
            wanted = {key: _mean([place[n] for n in neighbours.get(key, ())], place[key]) for key in column}
            column.sort(key=wanted.__getitem__)
            place.update((key, i) for i, key in enumerate(column))


def _heights(layout: _Layout) -> dict[Key, float]:
    """Return the middle of each box and waypoint."""
    middle: dict[Key, float] = {}
    for column in layout.columns:
        middle.update(zip(column, _spread(layout, column, [0.0] * len(column)), strict=True))
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = layout.left if forward else layout.right
        for column in layout.columns if forward else reversed(layout.columns):
            wanted = [_mean([middle[n] for n in neighbours.get(key, ())], middle[key]) for key in column]
            middle.update(zip(column, _spread(layout, column, wanted), strict=True))
    top = min((y - layout.height(key) / 2 for key, y in middle.items()), default=0.0)
    return {key: y - top + _MARGIN for key, y in middle.items()}


def _spread(layout: _Layout, column: Sequence[Key], wanted: Sequence[float]) -> list[float]:
    """Return the heights nearest to `wanted`, by least squares, that keep the order and the gaps of a column."""
    offsets = [0.0]
    for above, below in itertools.pairwise(column):
        offsets.append(offsets[-1] + (layout.height(above) + layout.height(below)) / 2 + _GAP)
    pools: list[tuple[float, int]] = []
    for value, offset in zip(wanted, offsets, strict=True):
        pools.append((value - offset, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (a, m), (b, n) = pools[-2:]
            pools[-2:] = [((a * m + b * n) / (m + n), m + n)]
    flat = [value for value, count in pools for _ in range(count)]
    return [value + offset for value, offset in zip(flat, offsets, strict=True)]


def _columns(layout: _Layout) -> tuple[list[int], list[int]]:
    """Return left edge and width of each column."""
    xs, widths, x = [], [], _MARGIN
    for level, column in enumerate(layout.columns):
        longest = max(len(_cut(id_)) for id_, _ in column if layout.layer[id_] == level)
        widths.append(_width(longest))
        xs.append(x)
        x += widths[-1] + _COLUMN_GAP
    return xs, widths


def _width(characters: int) -> int:
    return round(max(characters, 16) * _CHARACTER) + _PADDING


def _paths(
    layout: _Layout, middle: Mapping[Key, float], ends: tuple[Sequence[int], Sequence[int]]
) -> list[tuple[str, bool]]:
    """Return each piece of the edges once, as path data, and whether it ends at a box."""
    lefts, rights = ends
    pieces = []
    for column in layout.columns:
        for key in column:
            level, y = key[1], round(middle[key])
            if layout.layer[key[0]] != level:
                pieces.append((f"M{lefts[level]} {y}H{rights[level]}", False))
            for there in layout.right.get(key, ()):
                start, end, target = rights[level], lefts[level + 1], round(middle[there])
                half = (start + end) // 2
                path = f"M{start} {y}C{half} {y} {half} {target} {end} {target}"
                pieces.append((path, layout.layer[there[0]] == level + 1))
    return pieces


def _grid(vertices: Sequence[Vertex], bottom: int) -> list[Box]:
    """Return the boxes of stages without edges: rows below the rest."""
    width = _width(max((len(_cut(v.id)) for v in vertices), default=0))
    top = bottom + _GAP * 2 if bottom else _MARGIN
    return [
        Box(v, _cut(v.id), _MARGIN + i % _GRID * (width + _GAP), top + i // _GRID * (_BOX + _GAP), width)
        for i, v in enumerate(vertices)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
