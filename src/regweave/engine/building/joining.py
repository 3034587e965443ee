"""Native nodes with nothing foreign between them become one node: a pass over the model that would run.

    x -> Native -> Conv -> Native -> y        level of a node: how often, at most, the way to it goes from
            \\-> Native ----------/            something native through something foreign

Native nodes of one level are one operator. Whatever lies on a way between two of them has their level too, so
nothing that is left outside has to run between them; and no other division has fewer operators, since along
the longest way every change is one. Within an operator, nodes keep the order that they had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx

from regweave.devices.onnxruntime import DOMAIN, MOST_IMAGES, RANK, NativeOperator, SizedOperator
from regweave.engine.building.joined import Part, joined_operator
from regweave.graphs.attributes import outer_reads
from regweave.graphs.reading.order import known_names, running_order

JOINED = "Joined"
"""What the op types of joined operators begin with; their number follows."""

Operator = NativeOperator | SizedOperator


@dataclass(frozen=True, eq=False)
class Joined:
    """An operator of several, and which they are, by their op types."""

    operator: SizedOperator
    members: tuple[str, ...]


def join(
    model: onnx.ModelProto, operators: Mapping[str, Operator], rank: Callable[[str], int | None]
) -> tuple[onnx.ModelProto, dict[str, Joined]]:
    """`model` with the nodes of `operators` joined, and the joined operators by their op types.

    `rank` gives the number of dimensions of a tensor that none of them makes, None where that is not known;
    operators that would read or leave tensors of more dimensions than RANK are left alone.
    """
    nodes = list(model.graph.node)
    last = {value.name for value in model.graph.output}
    ranks = _ranks(nodes, operators, rank)
    able = set(ranks)
    while wide := {i for group in _groups(nodes, able) for i in _wide(nodes, group, last, ranks)}:
        able -= wide
    queue = _groups(nodes, able)
    joined: dict[str, Joined] = {}
    taken: set[int] = set()
    added: list[onnx.NodeProto] = []
    while queue:
        group = queue.pop()
        inputs, outputs = _borders(nodes, group, last)
        if len(group) > 1 and max(len(inputs), len(outputs)) > MOST_IMAGES:
            queue += [group[: len(group) // 2], group[len(group) // 2 :]]
        elif len(group) > 1 and not _wide(nodes, group, last, ranks):
            name = f"{JOINED}{len(joined)}"
            parts = [
                Part(operators[n.op_type], tuple(n.input), n.output[0]) for n in (nodes[i] for i in group)
            ]
            members = tuple(nodes[index].op_type for index in group)
            joined[name] = Joined(joined_operator(name, parts, inputs, outputs), members)
            added.append(onnx.helper.make_node(name, inputs, outputs, f"regweave/{name}", domain=DOMAIN))
            taken.update(group)
    nodes = [node for index, node in enumerate(nodes) if index not in taken] + added
    order = running_order(nodes, known_names(model.graph))
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.graph.node[:]
    result.graph.node.extend(nodes[index] for index in order)
    return result, joined


def _borders(
    nodes: Sequence[onnx.NodeProto], group: Sequence[int], last: set[str]
) -> tuple[list[str], list[str]]:
    """What a group reads from outside, and what of it is read there."""
    inside = set(group)
    made = dict.fromkeys(nodes[index].output[0] for index in group)
    read = last.union(*(outer_reads(node) for index, node in enumerate(nodes) if index not in inside))
    inputs = dict.fromkeys(name for index in group for name in nodes[index].input if name not in made)
    return list(inputs), [name for name in made if name in read]


def _ranks(
    nodes: Sequence[onnx.NodeProto], operators: Mapping[str, Operator], rank: Callable[[str], int | None]
) -> dict[int, dict[str, int]]:
    """The nodes, by their indices, that can be joined, with the dimensions of what they read and make."""
    known: dict[str, int | None] = {}
    able: dict[int, dict[str, int]] = {}
    for index, node in enumerate(nodes):
        operator = operators.get(node.op_type) if node.domain == DOMAIN else None
        if operator is None:
            continue
        sized = isinstance(operator, SizedOperator)
        known[node.output[0]] = operator.rank if sized else len(operator.output)
        found = {name: known[name] if name in known else rank(name) for name in (*node.input, node.output[0])}
        certain = {name: count for name, count in found.items() if count is not None}
        if len(certain) == len(found):
            able[index] = certain
    return able


def _wide(
    nodes: Sequence[onnx.NodeProto], group: Sequence[int], last: set[str], ranks: dict[int, dict[str, int]]
) -> set[int]:
    """Those of a group through which it would read or leave a tensor of too many dimensions."""
    inputs, outputs = _borders(nodes, group, last)
    border = {*inputs, *outputs}
    return {i for i in group if any(count > RANK and name in border for name, count in ranks[i].items())}


def _groups(nodes: Sequence[onnx.NodeProto], able: set[int]) -> list[list[int]]:
    """The indices of `able` nodes that can be one operator."""
    levels: dict[str, int] = {}
    groups: dict[int, list[int]] = {}
    native = {name for index in able for name in nodes[index].output}
    for index, node in enumerate(nodes):
        own = index in able
        level = max((levels.get(n, 0) + (not own and n in native) for n in outer_reads(node)), default=0)
        levels |= dict.fromkeys(node.output, level)
        if own:
            groups.setdefault(level, []).append(index)
    return [groups[level] for level in sorted(groups)]
