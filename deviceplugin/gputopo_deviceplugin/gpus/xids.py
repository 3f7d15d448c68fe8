"""NVIDIA's XID codes: which of them require a GPU reset or a reboot of the node. Pure functions.

Source: "Xid Catalog", column "Resolution Bucket (Immediate Action)", of October 2025:
https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html. In this catalogue:

* The codes of ``_RESET`` have ``RESET_GPU``. 48 has ``WORKFLOW_XID_48``, which ends in a reset.
* The codes of ``_REBOOT`` have ``RESTART_BM`` or ``RESTART_VM``.
* 109 has ``RESET_GPU``, but NVIDIA's device plugin for Kubernetes treats it as an application
  error. gputopo cannot see which is right, so it makes the GPU unhealthy for a limited time. A GPU
  that needs a reset stays unhealthy for longer, because NVML reports a recovery action for it.
* For 74 and 144 to 150 the action depends on registers that NVML does not report with the event.
  gputopo treats these codes like 109.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

APPLICATION_XIDS: Final = frozenset({13, 31, 43, 45, 68})
"""XIDs caused by a faulty application; NVIDIA's device plugin ignores these and 109."""

_RESET: Final[Mapping[int, str]] = MappingProxyType(
    {
        46: "GPU stopped processing",
        48: "double-bit ECC error",
        62: "internal micro-controller halt",
        64: "memory remapping failure",
        95: "uncontained ECC error",
        110: "security fault",
        119: "GSP RPC timeout",
        120: "GSP error",
        136: "NVLink training failed",
        140: "unrecovered ECC error",
        143: "GPU initialization error",
        155: "NVLink error defined by software",
        156: "resource retirement",
        158: "GPU fatal timeout",
    }
)

_REBOOT: Final[Mapping[int, str]] = MappingProxyType(
    {
        79: "GPU has fallen off the bus",
        151: "key rotation error",
    }
)

_TRANSIENT: Final[Mapping[int, str]] = MappingProxyType(
    {
        63: "memory remapping",
        74: "NVLink error",
        92: "high rate of single-bit ECC errors",
        94: "contained ECC error",
        109: "context switch timeout",
        154: "GPU recovery action changed",
        **dict.fromkeys(range(144, 151), "NVLink error"),
    }
)
"""Names of the most frequent transient XIDs. An XID that is in no table is transient too."""


def is_critical(xid: int) -> bool:
    """Return whether an XID makes the GPU unhealthy."""
    return xid not in APPLICATION_XIDS


def is_fatal(xid: int) -> bool:
    """Return whether the GPU stays unhealthy until it is reset or the node reboots."""
    return xid in _RESET or xid in _REBOOT


def explain(xid: int, quiet_seconds: float) -> str:
    """Return the reason why the GPU is unhealthy: the XID, its name and the remedy.

    For example "XID 95: uncontained ECC error: reset the GPU or reboot the node".
    """
    if xid in _RESET:
        return f"XID {xid}: {_RESET[xid]}: reset the GPU or reboot the node"
    if xid in _REBOOT:
        return f"XID {xid}: {_REBOOT[xid]}: reboot the node"
    name = _TRANSIENT.get(xid, "error of the GPU or the driver")
    return f"XID {xid}: {name}: healthy again {quiet_seconds:g} s after the last one"
