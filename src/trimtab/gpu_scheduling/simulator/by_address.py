"""Handing an environment to compiled code by its address.

A `State` has eleven arrays, `Tables` has four and fifteen numbers, a `Snapshot` has sixty views of them.
Handed over by value, that is hundreds of words at each call, and compiling those calls took most of the time.
So all of it stands in one row of words, written by Python whenever an array is a new one:

    [ address and shape of each array of the state | the same of the tables, their numbers | engine ]

In compiled code `state_at`, `tables_at` and `look` are the address of that row, and `s.slots` or
`snapshot.free_gpus` reads what it needs of it. Compiled code never writes the row, so it may be read once and
kept. Without a compiler (NUMBA_DISABLE_JIT) the row is the pair of state and tables.
"""

from __future__ import annotations

from typing import Any

import numba
import numba.core.config
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.np.arrayobj import make_array, populate_array

from trimtab.gpu_scheduling.simulator import looking, state, tables
from trimtab.gpu_scheduling.simulator.state import State
from trimtab.gpu_scheduling.simulator.tables import Tables

__all__ = ["WITHOUT_COMPILER", "answer", "look", "machines_at", "row_of", "state_at", "tables_at"]

WORD = ir.IntType(64)
WITHOUT_COMPILER = bool(numba.core.config.DISABLE_JIT)  # pyright: ignore[reportAttributeAccessIssue]


# --- the row ---------------------------------------------------------------------------------------------


def _kinds(arrays: dict[str, tuple[Any, int]], numbers: dict[str, Any]) -> dict[str, types.Type]:
    found: dict[str, types.Type] = {
        name: types.Array(numba.from_dtype(np.dtype(kind)), dimensions, "C")
        for name, (kind, dimensions) in arrays.items()
    }
    return found | {name: numba.from_dtype(np.dtype(kind)) for name, kind in numbers.items()}


def _places(kinds: dict[str, types.Type], first: int) -> dict[str, int]:
    places = {}
    for name, kind in kinds.items():
        places[name] = first
        first += 1 + kind.ndim if isinstance(kind, types.Array) else 1
    return places


KINDS = {"state": _kinds(state.ARRAYS, {}), "tables": _kinds(tables.ARRAYS, tables.NUMBERS)}
_STATE_WORDS = sum(1 + kind.ndim for kind in KINDS["state"].values() if isinstance(kind, types.Array))
PLACES = {"state": _places(KINDS["state"], 0), "tables": _places(KINDS["tables"], _STATE_WORDS)}
_ENGINE = max(PLACES["tables"].values()) + 1


def row_of(s: State, t: Tables, engine: int) -> Any:
    """The row for compiled code; valid as long as both live and keep their arrays."""
    if WITHOUT_COMPILER:
        return s, t
    row = np.zeros(_ENGINE + 1, np.int64)
    row[_ENGINE] = engine
    for owner, held, arrays in (("state", s, state.ARRAYS), ("tables", t, tables.ARRAYS)):
        for name, place in PLACES[owner].items():
            value = getattr(held, name)
            if isinstance(value, np.ndarray):
                # Compiled code takes the memory for what it is told, so this must not be wrong.
                assert (value.dtype, value.ndim) == arrays[name], name
                assert value.flags.c_contiguous, name
                row[place : place + 1 + value.ndim] = value.ctypes.data, *value.shape
            else:
                row[place : place + 1].view(tables.NUMBERS[name])[0] = value
    return row


# --- in compiled code --------------------------------------------------------------------------------------


class Address(types.Type):
    """Type of the address of a row, seen as a state, as tables or as a snapshot."""

    def __init__(self, seen_as: str) -> None:
        self.seen_as = seen_as
        super().__init__(name=seen_as)


class StateAddress(Address): ...


class TablesAddress(Address): ...


class SnapshotAddress(Address): ...


STATE, TABLES, SNAPSHOT = StateAddress("State"), TablesAddress("Tables"), SnapshotAddress("Snapshot")
for _address in (StateAddress, TablesAddress, SnapshotAddress):
    register_model(_address)(models.OpaqueModel)


def _word(builder: Any, row: Any, place: int, kind: Any = WORD) -> Any:
    """Read one word of the row, which stays as it is while compiled code runs."""
    words = builder.bitcast(row, kind.as_pointer())
    word = builder.load(builder.gep(words, [WORD(place)]))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word


def _array(
    context: Any, builder: Any, kind: Any, row: Any, place: int, *, shape: Any = None, offset: Any = None
) -> Any:
    """The array whose address stands at a place, or another one that begins `offset` bytes into it."""
    lengths = [_word(builder, row, place + 1 + axis) for axis in range(kind.ndim)] if shape is None else shape
    data = _word(builder, row, place)
    if offset is not None:
        data = builder.add(data, offset)
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    return _view(context, builder, kind, data, lengths, item)


def _view(context: Any, builder: Any, kind: Any, data: Any, lengths: Any, step: int) -> Any:
    item = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [WORD(step)] if kind.ndim == 1 else [builder.mul(lengths[1], WORD(item)), WORD(item)]
    found = make_array(kind)(context, builder)
    populate_array(
        found,
        data=builder.inttoptr(data, context.get_data_type(kind.dtype).as_pointer()),
        shape=cgutils.pack_array(builder, lengths, WORD),
        strides=cgutils.pack_array(builder, strides, WORD),
        itemsize=WORD(item),
        meminfo=None,
    )
    return found._getvalue()


def _held(context: Any, builder: Any, owner: str, name: str, row: Any) -> Any:
    kind, place = KINDS[owner][name], PLACES[owner][name]
    if isinstance(kind, types.Array):
        return _array(context, builder, kind, row, place)
    return _word(builder, row, place, context.get_data_type(kind))


def _scalar(builder: Any, row: Any, place: int) -> Any:
    """One of the numbers of the state, which change."""
    scalar = builder.inttoptr(_word(builder, row, PLACES["state"]["scalar"]), WORD.as_pointer())
    return builder.load(builder.gep(scalar, [WORD(place)]))


def _attributes(address: Any, kinds: dict[str, types.Type]) -> None:
    class Attributes(AttributeTemplate):
        key = address

        def generic_resolve(self, value: Any, attribute: str) -> types.Type | None:
            return kinds.get(attribute)

    infer_getattr(Attributes)


_attributes(StateAddress, KINDS["state"])
_attributes(TablesAddress, KINDS["tables"])


@lower_getattr_generic(StateAddress)
def _of_state(context: Any, builder: Any, kind: Any, row: Any, name: str) -> Any:
    return _held(context, builder, "state", name, row)


@lower_getattr_generic(TablesAddress)
def _of_tables(context: Any, builder: Any, kind: Any, row: Any, name: str) -> Any:
    return _held(context, builder, "tables", name, row)


# --- snapshots ---------------------------------------------------------------------------------------------


def _field(owner: str, array: str, field: str) -> tuple[Any, int]:
    """Type and offset of one field of an array of records."""
    layout = (state if owner == "state" else tables).ARRAYS[array][0]
    kind, offset = layout.fields[field][:2]
    return numba.from_dtype(kind), int(offset)


SEEN: dict[str, types.Type] = {
    "may_hold": types.boolean,
    **dict.fromkeys(looking.SCALARS, types.int64),
    **{name: types.Array(types.int64, 1, "C") for name in looking.LISTS},
    **{name: types.Array(_field(*where)[0], 1, "A") for name, where in looking.FIELDS.items()},
    **{name: KINDS[owner][held] for name, (owner, held) in looking.WHOLE.items()},
}
_attributes(SnapshotAddress, SEEN)


@lower_getattr_generic(SnapshotAddress)
def _of_snapshot(context: Any, builder: Any, kind: Any, row: Any, name: str) -> Any:
    if name in looking.SCALARS:
        return _scalar(builder, row, looking.SCALARS[name])
    if name in looking.LISTS:
        return _list(context, builder, row, *looking.LISTS[name])
    if name in looking.FIELDS:
        owner, array, field = looking.FIELDS[name]
        records: Any = KINDS[owner][array]
        place = PLACES[owner][array]
        data = builder.add(_word(builder, row, place), WORD(_field(owner, array, field)[1]))
        step = context.get_abi_sizeof(context.get_data_type(records.dtype))
        return _view(context, builder, SEEN[name], data, [_word(builder, row, place + 1)], step)
    if name in looking.WHOLE:
        owner, held = looking.WHOLE[name]
        return _held(context, builder, owner, held, row)
    runs = builder.icmp_signed(">", _scalar(builder, row, state.RUNNING), WORD(0))
    jobs = _word(builder, row, PLACES["tables"]["jobs"] + 1)
    comes = builder.icmp_signed("<", _scalar(builder, row, state.NEXT_ARRIVAL), jobs)
    return builder.or_(runs, comes)


def _list(context: Any, builder: Any, row: Any, line: int, count: int | None) -> Any:
    """A line of the lists of slots, as far as it is used."""
    place = PLACES["state"]["lists"]
    room = _word(builder, row, place + 2)
    length = room if count is None else _scalar(builder, row, count)
    offset = builder.mul(room, WORD(8 * line))
    kind = types.Array(types.int64, 1, "C")
    return _array(context, builder, kind, row, place, shape=[length], offset=offset)


# --- from and to the row -----------------------------------------------------------------------------------

_BYTES = ir.IntType(8).as_pointer()


@intrinsic
def _state_at(typing: Any, row: Any) -> Any:
    return STATE(row), _row_at


@intrinsic
def _tables_at(typing: Any, row: Any) -> Any:
    return TABLES(row), _row_at


def _row_at(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    if isinstance(signature.args[0], types.Array):
        return builder.bitcast(make_array(signature.args[0])(context, builder, arguments[0]).data, _BYTES)
    return builder.inttoptr(arguments[0], _BYTES)


@intrinsic
def _look(typing: Any, s: Any, t: Any) -> Any:
    return SNAPSHOT(s, t), lambda context, builder, signature, arguments: arguments[0]


@intrinsic
def _machines_at(typing: Any, address: Any, count: Any, step: Any) -> Any:
    """Machines in order of preference, from the address of the first."""
    kind = types.Array(types.int64, 1, "A")

    def view(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data, length, step = arguments
        found = make_array(kind)(context, builder)
        populate_array(
            found,
            data=builder.inttoptr(data, WORD.as_pointer()),
            shape=cgutils.pack_array(builder, [length], WORD),
            strides=cgutils.pack_array(builder, [step], WORD),
            itemsize=WORD(8),
            meminfo=None,
        )
        return found._getvalue()

    return kind(types.int64, types.int64, types.int64), view


@intrinsic
def answer(typing: Any, row: Any, task: Any, verb: Any, job: Any, machines: Any, gpu: Any) -> Any:
    """Call the engine (see replay.py), whose address stands last in the row."""
    if not isinstance(machines, types.Array) or machines.dtype != types.int64 or machines.ndim != 1:
        raise TypingError(f"machines of an action are a row of int64 numbers, not {machines}")

    def call(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _, task, verb, job, chosen, gpu = arguments
        row = _row_at(context, builder, signature, arguments)
        array = make_array(signature.args[4])(context, builder, chosen)
        kind = ir.FunctionType(WORD, [WORD] * 8).as_pointer()
        engine = builder.inttoptr(_word(builder, row, _ENGINE), kind)
        (count,) = cgutils.unpack_tuple(builder, array.shape, 1)
        (step,) = cgutils.unpack_tuple(builder, array.strides, 1)
        where = builder.ptrtoint(array.data, WORD), count, step
        return builder.call(engine, [builder.ptrtoint(row, WORD), task, verb, job, *where, gpu])

    number = types.int64
    return number(row, number, number, number, machines, number), call


def _machines_as_they_are(machines: Any, count: int, step: int) -> Any:
    return machines


machines_at: Any = _machines_as_they_are if WITHOUT_COMPILER else _machines_at
state_at: Any = (lambda row: row[0]) if WITHOUT_COMPILER else _state_at
tables_at: Any = (lambda row: row[1]) if WITHOUT_COMPILER else _tables_at
look: Any = looking.look if WITHOUT_COMPILER else _look
