"""A network as one node of autograd: one call forward, and one backward."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import CDLL, c_int64, c_void_p, memmove, memset
from functools import lru_cache
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from incidence.engine import layer
from incidence.engine.compiled.binding import Binding
from incidence.engine.compiled.program import Program
from incidence.engine.compiled.values import Drop
from incidence.engine.gradient import with_gradient
from incidence.engine.library import compiled_library
from incidence.structure.data import Array, StructureData, cache_of
from incidence.structure.ragged import starts_of

__all__ = ["Network", "by_modules", "is_available"]

_MOST_FLOATS = 1 << 20  # of one value; with more, torch has several threads for each step
_ROOM = 1.25  # of an arena, for batches that are a little larger

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_runs_modules: ContextVar[bool] = ContextVar("runs_modules", default=False)


@contextmanager
def by_modules() -> Iterator[None]:
    """Let modules compute, and no compiled network."""
    token = _runs_modules.set(True)
    try:
        yield
    finally:
        _runs_modules.reset(token)


def is_available() -> bool:
    """Return whether networks can be compiled here, and may be now."""
    return not _runs_modules.get() and _library() is not None


@lru_cache(maxsize=1)
def _library() -> CDLL | None:
    library = compiled_library(Path(__file__).with_name("network.c"))
    if library is not None:
        for function in (library.forward, library.backward):
            function.argtypes = [c_void_p, c_void_p, c_int64, c_void_p]
            function.restype = None
    return library


class _Arena:
    """Memory of one forward pass and its backward pass.

    Attributes:
        turn: How often it was taken: values of an earlier turn are overwritten.
    """

    def __init__(self) -> None:
        self.turn = 0
        self._memory: dict[str, Tensor] = {}

    def tensor(self, name: str, count: int) -> Tensor:
        """Return the memory of some name, with room for so many floats at least."""
        known = self._memory.get(name)
        if known is None or known.numel() < count:
            known = self._memory[name] = torch.empty(int(count * _ROOM))
        return known

    def floats(self, name: str, count: int) -> int:
        """Return the address of that memory."""
        return self.tensor(name, count).data_ptr()


class _Call:
    """One forward pass, with what its backward pass needs.

    The arena is free once there was a backward pass. As long as no other pass has taken it, it
    still serves a second backward pass.
    """

    def __init__(
        self,
        network: Network,
        binding: Binding,
        structure: StructureData,
        rng_state: Tensor | None,
    ) -> None:
        self.network, self.binding, self.structure = network, binding, structure
        self.rng_state = rng_state
        self.arena = network.free.pop() if network.free else _Arena()
        self.arena.turn += 1
        self.turn = self.arena.turn
        self._is_free = False
        self.numbers = self.addresses = np.zeros(0, dtype=np.int64)
        self.kept: list[Any] = []  # masks

    @property
    def is_valid(self) -> bool:
        """Whether the values of this pass are still there."""
        return self.arena.turn == self.turn

    def release(self) -> None:
        """Let another pass have the arena."""
        if not self._is_free:
            self._is_free = True
            self.network.free.append(self.arena)

    def __del__(self) -> None:
        self.release()


class Network:
    """A module whose steps were written down.

    Args:
        module: The module.
        program: Its steps.
        replay: Runs the module itself on the inputs; it returns the outputs.

    Attributes:
        free: The arenas that no pass holds.
    """

    def __init__(
        self,
        module: nn.Module,
        program: Program,
        replay: Callable[[Sequence[Tensor], Any], Sequence[Tensor]],
    ) -> None:
        self.program, self.replay = program, replay
        self.free: list[_Arena] = []
        self._code, self._starts = program.finished()
        modules = list(module.modules())
        self._parts = [m._modules for m in modules]
        self._children = list(chain.from_iterable(parts.values() for parts in self._parts))
        # who looks at what goes into a module, or comes out
        self._hooks = [getattr(m, name) for m in modules for name in _HOOKS]
        self._parameters = [(m._parameters, name) for m, name in program.parameters]
        self._shapes = [m._parameters[name].shape for m, name in program.parameters]  # type: ignore[union-attr]
        # gradients of one shape stand side by side: a few views make a tensor of each
        by_shape: dict[torch.Size, list[int]] = {}
        for k, shape in enumerate(self._shapes):
            by_shape.setdefault(shape, []).append(k)
        self._group_shapes = [(len(group), *shape) for shape, group in by_shape.items()]
        self._group_sizes = [prod(shape) for shape in self._group_shapes]
        self._num_parameters = sum(self._group_sizes)
        order = np.array(list(chain.from_iterable(by_shape.values())), dtype=np.int64)
        self._order = order.argsort().tolist()  # of every parameter, where it stands
        sizes = np.array([shape.numel() for shape in self._shapes], dtype=np.int64)
        self._grad_starts = starts_of(sizes[order])[self._order]
        self._buffers = [(m._buffers, name) for m, name in program.buffers]
        self._slots = np.array(program.parameter_slots(), dtype=np.int64)
        self._buffer_slots = np.array(program.buffer_slots(), dtype=np.int64)
        self._copies = _copied_slots(program)
        self._first = program.num_addresses  # of the addresses of inputs and outputs
        self._tables = _addresses(self._code, self._starts)
        self._flag_slots = np.array([slot for slot, _ in program.flags], dtype=np.int64)

    # ---- whether it can run

    def is_current(self) -> bool:
        """Return whether the module is still as it was, and nobody hooks into it."""
        children = list(chain.from_iterable(map(dict.values, self._parts)))
        return children == self._children and not any(self._hooks)

    @property
    def is_spread(self) -> bool:
        """Whether norms take their statistics over several processes."""
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return False
        return torch.distributed.get_world_size() > 1 and bool(self.program.flags)

    def parameters(self) -> list[Tensor] | None:
        """Return the parameters; None if one is not as the code reads it."""
        found: list[Tensor] = []
        for (known, name), shape in zip(self._parameters, self._shapes, strict=True):
            parameter = known.get(name)
            if parameter is None or not _is_plain(parameter) or parameter.shape != shape:
                return None
            found.append(parameter)
        return found

    def binding(self, structure: StructureData) -> Binding | None:
        """Return the program on a structure; None where it is too large."""
        cache = cache_of(structure, Binding)
        if self not in cache:
            cache[self] = Binding(self.program, structure)
        binding = cache[self]
        is_small = int(binding.sizes.max()) <= _MOST_FLOATS
        return binding if binding.can_run and is_small else None

    def run(self, xs: Sequence[Tensor], structure: StructureData) -> Sequence[Tensor] | None:
        """Return the outputs; None where the module has to compute them."""
        if not is_available() or not self.is_current():
            return None
        if not all(map(_is_plain, xs)):
            return None
        parameters, binding = self.parameters(), self.binding(structure)
        if parameters is None or binding is None:
            return None
        for x, value in zip(xs, self.program.inputs, strict=True):
            if x.shape != (binding.rows[value.number], value.width):
                return None  # the module says what is wrong
        calls: list[_Call] = []

        def forward(*tensors: Tensor) -> tuple[list[Tensor], Sequence[Tensor]]:
            ys, call = self.forward(binding, structure, tensors[: len(xs)], tensors[len(xs) :])
            calls.append(call)
            return ys, tensors

        def backward(
            tensors: Sequence[Tensor], grads: Sequence[Tensor], needs: Sequence[bool]
        ) -> Sequence[Tensor | None]:
            [call] = calls
            if torch.is_grad_enabled() or not call.is_valid:
                return _replayed(call, tensors, len(xs), grads, needs)
            d_xs, d_parameters = self.backward(call, grads, needs[: len(xs)], tensors[: len(xs)])
            call.release()
            return [*d_xs, *d_parameters]  # autograd drops those that nobody needs

        return with_gradient(forward, backward, *xs, *parameters)

    # ---- a pass

    def forward(
        self,
        binding: Binding,
        structure: StructureData,
        xs: Sequence[Tensor],
        parameters: Sequence[Tensor],
    ) -> tuple[list[Tensor], _Call]:
        """Return the outputs, and what the way back needs."""
        drops = [drop for drop in self.program.drops if drop[0].training]
        call = _Call(self, binding, structure, torch.get_rng_state() if drops else None)
        addresses = binding.addresses.copy()
        pointers = np.array([p.data_ptr() for p in parameters], dtype=np.int64)
        addresses[self._slots] = pointers
        addresses[self._copies[0]] = pointers[self._copies[1]]
        if self._buffers:
            known = [buffers[name].data_ptr() for buffers, name in self._buffers]  # type: ignore[union-attr]
            addresses[self._buffer_slots] = known
        for drop in drops:
            self._draw(drop, binding, addresses, call)
        numbers = binding.numbers
        if self.program.flags:
            numbers = numbers.copy()
            numbers[self._flag_slots] = [module.training for _, module in self.program.flags]
        ys = [
            torch.empty(int(binding.rows[value.number]), value.width)
            for value in self.program.outputs
        ]
        ends = [t.data_ptr() for t in (*xs, *ys)]
        addresses[self._first : self._first + len(ends)] = ends
        call.numbers, call.addresses = numbers, addresses
        self._run("forward", call, 0, 0)
        return ys, call

    def _draw(self, drop: Drop, binding: Binding, addresses: Array, call: _Call) -> None:
        """Draw the masks of a module just as it would."""
        module, kind, places, values = drop
        counts = [int(binding.rows[v.number]) * v.width for v in values]
        if kind == "floats":
            rate: Any = module.p
            masks = [torch.empty(n).bernoulli_(1 - rate) for n in counts]
            for mask in masks:  # in numpy, which has no second thread
                np.divide(mask.numpy(), 1 - rate, out=mask.numpy())
            addresses[places] = [mask.data_ptr() for mask in masks]
            call.kept.append(masks)
            return
        if kind == "all":
            addresses[places] = 1  # nothing is drawn; everything is dropped
            return
        words = torch.empty((sum(counts) + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        addresses[places] = words.data_ptr() + 2 * starts
        call.kept.append(words)

    def _run(self, name: str, call: _Call, grad_places: int, written: int) -> None:
        binding, arena = call.binding, call.arena
        numbers, addresses = _addresses(call.numbers, call.addresses)
        frame = [  # `frame` in network.c
            *_addresses(binding.value_places, binding.rows, binding.widths),
            grad_places,
            numbers,
            addresses,
            arena.floats("values", binding.num_values),
            arena.floats("grads", binding.num_grads if grad_places else 1),
            arena.floats("scratch", binding.num_scratch + self.program.scratch),
            arena.floats("indices", binding.num_indices),
            written,
            layer.READ_COST,
        ]
        tables = (c_void_p * len(frame))(*frame)
        getattr(_library(), name)(*self._tables, len(self._starts), tables)

    def backward(
        self, call: _Call, grads: Sequence[Tensor], needs_x: Sequence[bool], xs: Sequence[Tensor]
    ) -> tuple[list[Tensor | None], list[Tensor]]:
        """Return the gradients of the inputs and of the parameters."""
        binding = call.binding
        d_xs = [torch.empty_like(x) if need else None for x, need in zip(xs, needs_x, strict=True)]
        flat = torch.empty(self._num_parameters)
        # torch would wake a second thread for this and for the copies below, which costs more than
        # a step on a busy machine
        memset(flat.data_ptr(), 0, 4 * self._num_parameters)
        pointers = flat.data_ptr() + 4 * self._grad_starts
        call.addresses[self._slots + 1] = pointers
        call.addresses[self._copies[2]] = pointers[self._copies[1]]
        places = binding.grad_places.copy()
        memory = call.arena.tensor("grads", binding.num_grads)
        written = np.zeros(len(places), dtype=np.uint8)
        for value, grad in zip(self.program.outputs, grads, strict=True):
            start = int(places[value.number])
            if grad.is_contiguous():
                memmove(memory.data_ptr() + 4 * start, grad.data_ptr(), 4 * grad.numel())
            else:
                memory[start : start + grad.numel()].view(grad.shape).copy_(grad)
            written[value.number] = 1
        first = self._first + len(xs) + len(grads)
        for k, (value, d_x) in enumerate(zip(self.program.inputs, d_xs, strict=True)):
            if d_x is not None:
                call.addresses[first + k] = d_x.data_ptr()
                places[value.number] = -1 - first - k
        self._run("backward", call, *_addresses(places, written))
        for value, d_x in zip(self.program.inputs, d_xs, strict=True):
            if d_x is not None and not written[value.number]:
                memset(d_x.data_ptr(), 0, 4 * d_x.numel())
        parts = flat.split_with_sizes(self._group_sizes)
        found = [
            part
            for flat_part, shape in zip(parts, self._group_shapes, strict=True)
            for part in flat_part.view(shape).unbind()
        ]
        return d_xs, [found[k] for k in self._order]


def _addresses(*arrays: Any) -> list[int]:
    """Return the addresses of arrays; `array.ctypes` takes three times as long."""
    return [array.__array_interface__["data"][0] for array in arrays]


def _copied_slots(program: Program) -> tuple[Array, Array, Array]:
    """Return where further addresses of parameters are, which parameters, and where those of their
    gradients are: weights of a layer stand side by side.
    """
    number_of = {slot: k for k, slot in enumerate(program.parameter_slots())}
    places, numbers, grads = [], [], []
    for first, slots in program.groups:
        for k, (slot, _) in enumerate(slots):
            places.append(first + k)
            grads.append(first + len(slots) + k)
            numbers.append(number_of[slot])
    return tuple(np.array(part, dtype=np.int64) for part in (places, numbers, grads))  # type: ignore[return-value]


def _is_plain(x: Any) -> bool:
    return bool(
        isinstance(x, Tensor)
        and x.dtype == torch.float32
        and x.is_contiguous()
        and x.is_cpu
        and x.layout == torch.strided
    )


def _replayed(
    call: _Call,
    tensors: Sequence[Tensor],
    num_inputs: int,
    grads: Sequence[Tensor],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradients by the modules themselves: to be differentiated again, or where the
    values of the pass are gone. Masks are drawn again, and buffers stay as they are.
    """
    network = call.network
    is_differentiated = torch.is_grad_enabled()
    buffers = [known[name] for known, name in network._buffers]
    before = [buffer.clone() for buffer in buffers if buffer is not None]
    xs = [x if need else x.detach() for x, need in zip(tensors, needs, strict=False)][:num_inputs]
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), by_modules():
        if call.rng_state is not None:
            torch.set_rng_state(call.rng_state)
        ys = network.replay(xs, call.structure)
        wanted = [t for t, need in zip((*xs, *tensors[num_inputs:]), needs, strict=True) if need]
        found = torch.autograd.grad(
            ys, wanted, grads, create_graph=is_differentiated, allow_unused=True
        )
    with torch.no_grad():
        for buffer, value in zip(buffers, before, strict=True):
            assert buffer is not None
            buffer.copy_(value)
    rest = iter(found)
    return [next(rest) if need else None for need in needs]
