"""Names of annotations, labels and other fields that users and all components share."""

from typing import Final

GROUP: Final = "gputopo.io"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

RESOURCE: Final = "gputopo.io/gpu"
"""Default name of the extended resource."""

SCHEDULER_NAME: Final = "gputopo"

JOB_LABEL: Final = "gputopo.io/job"
"""Label of a child Job and its Pods: the name of their GPUJob."""

ENSEMBLE_LABEL: Final = "gputopo.io/ensemble"
"""Label of the objects that the operator creates for a GPUEnsemble, and of their pods: its name."""

ENSEMBLE_MEMBER_LABEL: Final = "gputopo.io/ensemble-member"
"""Label of the GPUJob of a member: the name of the member."""

ENSEMBLE_PREPROCESSOR_LABEL: Final = "gputopo.io/ensemble-preprocessor"
"""Label of the preprocessor of an ensemble and of its pod: the number of its flotilla."""

PREPROCESSOR_VARIABLE: Final = "GPUTOPO_PREPROCESSOR"
"""Address and port of the preprocessor, in the containers of the members of an ensemble."""

ENSEMBLE_NODE_ANNOTATION: Final = "gputopo.io/ensemble-node"
"""Annotation of the GPUJob of a member: the node that the operator has planned for it."""

# Set on a pod by the user, or by the operator for a GPUJob.
PATTERN_ANNOTATION: Final = "gputopo.io/pattern"
EDGES_ANNOTATION: Final = "gputopo.io/edges"
SENSITIVITY_ANNOTATION: Final = "gputopo.io/bandwidth-sensitivity"
POLICY_ANNOTATION: Final = "gputopo.io/policy"
MIN_UTILITY_ANNOTATION: Final = "gputopo.io/min-utility-percent"
AVOID_ANNOTATION: Final = "gputopo.io/avoid"

MAX_WAIT_ANNOTATION: Final = "gputopo.io/max-wait-seconds"
"""For how long a pod waits at most for a better placement, from its creation; 0 to place it at
once."""

PROFILE_ANNOTATION: Final = "gputopo.io/profile"
"""Name of the GPUProfile of the pod's workload, in the pod's namespace."""

STEPS_SOURCE_ANNOTATION: Final = "gputopo.io/steps-source"
STEPS_METRICS_ANNOTATION: Final = "gputopo.io/steps-metrics"
PROFILING_ANNOTATION: Final = "gputopo.io/profiling"
PROFILING_SECONDS_ANNOTATION: Final = "gputopo.io/profiling-seconds"

FACTS_ANNOTATION: Final = "gputopo.io/facts"
"""What is known of the pod's workload: a copy of ``GPUProfile.status.podAnnotation``, which the
operator or an admission policy writes when the pod is created."""

SHARING_MEMORY_ANNOTATION: Final = "gputopo.io/sharing-memory"
SHARING_MAX_SLOWDOWN_ANNOTATION: Final = "gputopo.io/sharing-max-slowdown-percent"
"""GPU memory of a pod that requests a share of a GPU, and how much slower than alone it may run."""

SHARING_TERMINATION_ANNOTATION: Final = "gputopo.io/sharing-termination"
"""With the value ``Program``, the program of a pod that shares a GPU ends its work on the GPU by
itself after SIGTERM. Otherwise gputopo ends this work before the SIGTERM."""

SHARING_IF_SLOW_ANNOTATION: Final = "gputopo.io/sharing-if-slow"
"""``Move`` if gputopo may evict the pod when it came last and sharing the GPU does not pay."""

RESOURCES_MODE_ANNOTATION: Final = "gputopo.io/resources-mode"
RESOURCES_MAX_ANNOTATION: Final = "gputopo.io/resources-max"

RESOURCES_ANNOTATION: Final = "gputopo.io/resources"
"""Set on a pod by the operator before it resizes the pod."""

# Set on a pod by the operator while it measures the CPUs of the pod.
PROFILING_STATE_ANNOTATION: Final = "gputopo.io/profiling-state"
PROFILING_LABEL: Final = "gputopo.io/profiling-active"
"""Label of a pod whose CPUs the operator may have changed and has not yet restored."""

TUNED_LABEL: Final = "gputopo.io/tuned"
"""Label of a pod whose CPUs and memory gputopo may size while the pod runs; the value is "true".

The pod template of a GPUJob or an admission policy sets it. The operator watches only pods with
this label, so without such pods the operator sends no requests for them.
"""

LINK_RUN_LABEL: Final = "gputopo.io/link-run"
"""Label of the Jobs and pods of the two short runs that measure links: Best or Worst."""

LINK_RESULT_ANNOTATION: Final = "gputopo.io/link-result"
"""Set by the operator: on the Job of a short run when it ends, and on the child Job."""

# Set on a pod by the extender, in the Binding.
GPUS_ANNOTATION: Final = "gputopo.io/gpus"
PLACEMENT_ANNOTATION: Final = "gputopo.io/placement"

# Set on a pod by the extender while the pod waits for a better placement.
POSTPONED_ANNOTATION: Final = "gputopo.io/postponed"
"""What the pod waits for and until when. The Binding adds how long it waited and what it gained."""

RETRY_ANNOTATION: Final = "gputopo.io/retry-at"
"""Set to the current time, so that kube-scheduler tries the pod again at once: it tries a pod again
when the pod changes."""

GPUS_RESET_ANNOTATION: Final = "gputopo.io/gpus-reset-at"
"""Set on a Node by an administrator: an RFC 3339 time. XIDs before this time are ignored."""

READY_CONDITION: Final = "Ready"
"""Condition of a GPUTopology. While it is False, the node gets no new pods."""

NUMA_PUBLISHED_CONDITION: Final = "NUMAPublished"
"""Condition of a GPUTopology: whether the agent reports the NUMA nodes of the GPUs to kubelet."""

MPS_READY_CONDITION: Final = "MPSReady"
"""Condition of a GPUTopology: whether the component for MPS responds to the agent."""

CPUS_BOUND_CONDITION: Final = "CPUsBound"
"""Condition of a GPUTopology: whether the agent limits containers to the CPUs near their GPUs."""

INVALIDATED_ANNOTATION: Final = "gputopo.io/binding-called-off"
"""Set to any value on a pod. This changes its resource version, so Bindings in flight fail."""

CLAIMS_ANNOTATION: Final = "gputopo.io/claims"
"""Annotation of the Lease ``gputopo-claims``: the claims of all extenders."""

NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
CUDA_VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
"""The agent sets both variables in containers with GPUs; values in the pod's spec have priority."""

HIDING_VALUES: Final = frozenset({"", "void", "none", "-1"})
"""Values of NVIDIA_VISIBLE_DEVICES that make all GPUs invisible to a container."""

STEPS_DIRECTORY: Final = "/run/gputopo-steps"
"""Where the agent mounts the folder of a container's steps socket."""

STEPS_SOCKET: Final = "socket"
"""Name of the steps socket in its folder."""

STEPS_SOCKET_VARIABLE: Final = "GPUTOPO_STEPS_SOCKET"
"""The agent sets this variable to the path of the steps socket in the container."""

CPUS_VARIABLE: Final = "GPUTOPO_CPUS"
NUMA_NODES_VARIABLE: Final = "GPUTOPO_NUMA_NODES"
"""The agent sets both variables in containers with GPUs: the CPUs near the GPUs, and their NUMA
nodes. A value in the pod's spec has priority."""
