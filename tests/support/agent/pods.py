"""Pods of a test: their requests, their GPUs, and what their containers see."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import strategies

from gputopo_deviceplugin.kubelet.v1beta1.api_pb2 import ContainerAllocateResponse
from gputopo_kube.document import ObjectKey

_FEW = strategies.integers(1, 3)


class Shape(NamedTuple):
    """The GPUs that the containers of a pod request.

    Attributes:
        init: the init containers, in their order.
        sidecars: the init containers that keep running.
        requests: the application containers.
    """

    init: dict[str, int]
    sidecars: tuple[str, ...]
    requests: dict[str, int]

    @property
    def keepers(self) -> dict[str, int]:
        """Containers that keep their GPUs; application containers first, as they are placed."""
        return {**self.requests, **{name: self.init[name] for name in self.sidecars}}

    def keeper(self, name: str) -> str:
        """Return the container whose GPUs ``name`` uses."""
        order = [*self.init, *self.requests]
        return next(each for each in order[order.index(name) :] if self.keepers.get(each))


@strategies.composite
def shapes(draw: strategies.DrawFn) -> Shape:
    """Return valid shapes: no init container requests more than the next container keeps."""
    requests = {f"c{index}": draw(strategies.integers(0, 3)) for index in range(draw(_FEW))}
    keeps = next((gpus for gpus in requests.values() if gpus), 0)
    init, sidecars = {}, []
    for index in reversed(range(draw(_FEW) - 1)):
        name = f"i{index}"
        if draw(strategies.booleans()):
            sidecars.append(name)
            init[name] = draw(strategies.integers(0, 2))
            keeps = init[name] or keeps
        else:
            init[name] = draw(strategies.integers(0, keeps))
    return Shape(dict(reversed(init.items())), tuple(sidecars), requests)


@dataclass
class Pod:
    """One pod.

    Attributes:
        given: GPUs in rank order by container, as the annotation names them.
        wrong: whether the annotation must be rejected.
        seen: what each container of an admitted pod sees.
        lost: whether kubelet lost its record of it.
    """

    name: str
    uid: str
    shape: Shape
    given: dict[str, list[str]]
    wrong: bool = False
    seen: dict[str, list[str]] = field(default_factory=dict)
    lost: bool = False

    @property
    def key(self) -> ObjectKey:
        return ObjectKey("default", self.name)

    @property
    def held(self) -> dict[str, list[str]]:
        """The GPUs of the running containers."""
        return {name: gpus for name, gpus in self.seen.items() if name in self.shape.keepers}

    @property
    def gpus(self) -> list[str]:
        """All GPUs of the running containers."""
        return [gpu for gpus in self.held.values() for gpu in gpus]

    def start(self, given: Mapping[str, ContainerAllocateResponse]) -> None:
        """Start the containers with the responses for kubelet."""
        self.seen = {
            name: reply.envs["CUDA_VISIBLE_DEVICES"].split(",") for name, reply in given.items()
        }
        for name, reply in given.items():
            assert reply.envs["NVIDIA_VISIBLE_DEVICES"].split(",") == self.seen[name]

    def as_placed(self) -> bool:
        """Return whether each container sees what it should, in rank order."""
        wanted = {**self.shape.init, **self.shape.requests}
        sizes = {name: len(gpus) for name, gpus in self.seen.items()}
        return (
            sizes == {name: gpus for name, gpus in wanted.items() if gpus}
            and not (self.wrong and self.seen)
            and all(self._sees_its_own(name) for name in self.seen)
        )

    def _sees_its_own(self, name: str) -> bool:
        keeper = self.shape.keeper(name)
        own = self.given[keeper]
        part = [gpu for gpu in own if gpu in self.seen[name]]
        return self.seen[name] == (own if name == keeper else part)
