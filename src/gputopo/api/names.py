"""The names that users, manifests and every component share."""

from typing import Final

GROUP: Final = "gputopo.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

RESOURCE: Final = "gputopo.io/gpu"
"""The extended resource, unless it is configured otherwise."""

SCHEDULER_NAME: Final = "gputopo"

JOB_LABEL: Final = "gputopo.io/job"
"""On a child Job and its Pods: the name of their GPUJob."""

# Said by the user on a pod (or by the operator for a GPUJob).
PATTERN_ANNOTATION: Final = "gputopo.io/pattern"
EDGES_ANNOTATION: Final = "gputopo.io/edges"
SENSITIVITY_ANNOTATION: Final = "gputopo.io/bandwidth-sensitivity"
POLICY_ANNOTATION: Final = "gputopo.io/policy"

# Written by the extender, in the Binding.
GPUS_ANNOTATION: Final = "gputopo.io/gpus"
PLACEMENT_ANNOTATION: Final = "gputopo.io/placement"

GPUS_RESET_ANNOTATION: Final = "gputopo.io/gpus-reset-at"
"""On a Node, set by an administrator: RFC 3339 time; XIDs reported before it are void."""

READY_CONDITION: Final = "Ready"
"""Of a GPUTopology: whether kubelet is served; while it is False the node takes no new pods."""

CALLED_OFF_ANNOTATION: Final = "gputopo.io/binding-called-off"
"""Changed on a pod, its value meaning nothing, so that Bindings under way find another version."""

CLAIMS_ANNOTATION: Final = "gputopo.io/claims"
"""On the Lease ``gputopo-claims``: what extenders are about to give, to whom."""

NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
CUDA_VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
"""Both are set by the node agent in containers with GPUs; a value in the pod's spec replaces it."""

HIDING_VALUES: Final = frozenset({"", "void", "none", "-1"})
"""Values with which a container without GPUs hides the GPUs that its image asks for."""
