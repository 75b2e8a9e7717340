"""Graphs of one environment packed for numpy: one row for each stage that exists, sorted by height.

All stages of one height are handled at once. Among the TPC-H queries a job has 18 stages at most and a
longest path of 11, and 20 jobs have 190 stages in a grid of 360 places: half the numbers, and eleven
steps of a few calls instead of eighteen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trimtab.networks.graph_encoder import longest_path
from trimtab.networks.layers import Array, Parameters, leaky, mlp

__all__ = ["Packed", "packed"]

Integers = NDArray[np.int64]


class Level(NamedTuple):
    """The rows of one height.

    Rows are counted from 1 here: row 0 of an array by stage is what a stage has that has no children, and
    comes first among the children of each.
    """

    start: int
    end: int
    children: Integers  # those of the first parent first
    runs: Integers  # where in `children` those of the next parent begin
    heard: Integers  # each child once
    hears: NDArray[np.float32]  # [rows, heard]: 1 where a row is a parent


class Packed(NamedTuple):
    """Does what `Grid` does, but arrays by stage have one axis [rows, ...], and there is one environment."""

    shape: tuple[int, int]  # graphs and stages of the grid
    order: Integers  # by row: place in the grid, counted through
    graph: Integers  # by row: its graph
    members: NDArray[np.float32]  # [graphs, rows]: 1 where the row is of the graph
    by_graph: Integers  # rows, those of one graph side by side
    first: Integers  # by graph: its place in `by_graph`
    levels: list[Level]
    parents: Integers  # by edge: row of the parent, those of one child side by side
    runs: Integers  # where in `parents` those of the next child begin
    heirs: Integers  # rows that have parents, in the order of `runs`
    subset: Integers | None = None  # rows of a larger arrangement, where this is only a part of it

    def rows(self, by_stage: Array) -> Array:
        return by_stage.reshape(-1, *by_stage.shape[3:]).take(self.order, 0)

    def placed(self, by_stage: Array, otherwise: float | bool) -> Array:
        graphs, stages = self.shape
        grid = np.full((graphs * stages, *by_stage.shape[1:]), otherwise, by_stage.dtype)
        grid[self.order] = by_stage
        return grid.reshape(1, graphs, stages, *by_stage.shape[1:])

    def among(self, wanted: Array) -> Packed:
        subset = wanted.nonzero()[0]
        return self._replace(order=self.order[subset], graph=self.graph[subset], subset=subset)

    def picked(self, by_stage: Array) -> Array:
        return by_stage.take(self.subset, 0)

    def spread(self, by_graph: Array) -> Array:
        return by_graph[0].take(self.graph, 0)

    def total(self, by_stage: Array) -> Array:
        return self.members.dot(by_stage)[None]

    def largest(self, by_stage: Array) -> Array:
        return np.maximum.reduceat(by_stage.take(self.by_graph), self.first)[None]

    def longest_path(self, lengths: Array) -> Array:
        paths = np.zeros((len(self.order) + 1, len(lengths)), lengths.dtype)
        paths[1:] = lengths.T
        for start, end, children, runs, _, _ in self.levels[1:]:
            paths[start:end] += np.maximum.reduceat(paths.take(children, 0), runs)
        return paths[1:].T

    def latest_parent(self, times: Array) -> Array:
        latest = np.zeros_like(times)
        if len(self.heirs):
            latest[self.heirs] = np.maximum.reduceat(times.take(self.parents), self.runs)
        return latest

    def encode(self, parameters: Parameters, features: Array) -> Array:
        # The first layer of `combine` is applied to each message and not to their sum, its bias is one more
        # message: so a level takes two calls less.
        inner, *outer = parameters["combine"]
        own = mlp(parameters["own"], features, np)
        messages = np.empty((len(own) + 1, len(inner["bias"])), own.dtype)
        messages[0] = inner["bias"]
        for start, end, _, _, heard, hears in self.levels:
            combined = leaky(hears.dot(messages.take(heard, 0)), np)
            level = own[start - 1 : end - 1]
            level += leaky(mlp(outer, combined, np), np) if outer else combined
            messages[start:end] = leaky(mlp(parameters["message"], level, np), np).dot(inner["weights"])
        return own


def packed(children: Array, real: Array) -> Packed:
    """Pack graphs [graphs, stages, stages]; stages that are not `real` [graphs, stages] are left out.

    >>> chain_and_pair = np.array([[[0, 1, 0], [0, 0, 1], [0, 0, 0]], [[0, 1, 0], [0, 0, 0], [0, 0, 0]]])
    >>> packed(chain_and_pair, np.array([[True, True, True], [True, True, False]])).order.tolist()
    [2, 4, 1, 3, 0]
    """
    graphs, stages = real.shape
    height = longest_path(np.ones((graphs, stages), np.int64), children > 0, np).ravel() - 1
    places = np.flatnonzero(real)
    order = places[np.argsort(height[places], kind="stable")]
    row = np.zeros(graphs * stages, np.int64)
    row[order] = np.arange(len(order))
    parent, child = np.divmod(np.flatnonzero(children), stages)
    parent, child = row[parent], row[parent // stages * stages + child]
    graph = order // stages
    by_graph = np.argsort(graph, kind="stable")
    by_child = np.argsort(child, kind="stable")
    heirs, runs = np.unique(child[by_child], return_index=True)
    return Packed(
        (graphs, stages),
        order,
        graph,
        (graph == np.arange(graphs)[:, None]).astype(np.float32),
        by_graph,
        np.searchsorted(graph[by_graph], np.arange(graphs)),
        _levels(np.bincount(height[places]), parent, child),
        parent[by_child],
        runs,
        heirs,
    )


def _levels(counts: Integers, parent: Integers, child: Integers) -> list[Level]:
    rows = np.arange(counts.sum())
    parents = np.concatenate([rows, parent])
    by_parent = np.argsort(parents, kind="stable")
    parents, children = parents[by_parent], np.concatenate([np.zeros_like(rows), child + 1])[by_parent]
    begins = np.searchsorted(parents, np.arange(len(rows) + 1))
    levels, start = [], 0
    for end in np.cumsum(counts).tolist():
        first, last = begins[start], begins[end]
        heard, place = np.unique(children[first:last], return_inverse=True)
        hears = np.zeros((end - start, len(heard)), np.float32)
        hears[parents[first:last] - start, place] = 1
        runs = begins[start:end] - first
        levels.append(Level(start + 1, end + 1, children[first:last], runs, heard, hears))
        start = end
    return levels
