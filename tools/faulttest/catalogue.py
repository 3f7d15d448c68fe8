"""All scenarios by name."""

from faulttest import (
    api_loss,
    bad_gateway,
    checkpoint,
    delete_node,
    etcd_restore,
    force_delete,
    leader_crash,
    list_flood,
    nvml_hang,
    other_plugin,
    patched_pod,
    quota,
    reboot,
    stale_watch,
    xid,
)
from faulttest.scenario import Scenario

SCENARIOS = {
    one.name: one
    for one in (
        Scenario(
            "force-delete",
            "pods that ignore SIGTERM are deleted by force; other pods wait for their GPUs",
            force_delete.carry_out,
        ),
        Scenario(
            "delete-node",
            "a Node object is deleted under a running pod, and kubelet registers it again",
            delete_node.carry_out,
        ),
        Scenario(
            "nvml-hang",
            "NVML calls of one node do not return",
            nvml_hang.carry_out,
        ),
        Scenario(
            "api-loss",
            "the agent of one node loses the API server while a Deployment is scaled up",
            api_loss.carry_out,
        ),
        Scenario(
            "stale-watch",
            "a pod ends while another waits, with an extender that is slow or frozen",
            stale_watch.carry_out,
        ),
        Scenario(
            "checkpoint",
            "kubelet's device checkpoint is deleted under running pods",
            checkpoint.carry_out,
        ),
        Scenario(
            "list-flood",
            "500 pod-resources Lists per second while pods are admitted",
            list_flood.carry_out,
        ),
        Scenario(
            "patched-pod",
            "a pending pod is patched 20 times a second",
            patched_pod.carry_out,
        ),
        Scenario(
            "leader-crash",
            "the leading scheduler's extender is killed every 5 s while the standby is healthy",
            leader_crash.carry_out,
        ),
        Scenario(
            "etcd-restore",
            "etcd is restored from an old copy of its data while the extender runs",
            etcd_restore.carry_out,
        ),
        Scenario(
            "xid",
            "a GPU reports XID 95 and the agent restarts",
            xid.carry_out,
        ),
        Scenario(
            "reboot-missing-gpu",
            "a node reboots with one GPU less and other minors",
            reboot.carry_out,
        ),
        Scenario(
            "other-plugin",
            "another device plugin or DRA driver begins to offer the GPUs of a node",
            other_plugin.carry_out,
        ),
        Scenario(
            "quota",
            "a ResourceQuota forbids the GPUProfile of a GPUJob",
            quota.carry_out,
        ),
        Scenario(
            "bad-gateway",
            "a proxy responds to the agent of one node with 502 and no Content-Type",
            bad_gateway.carry_out,
        ),
    )
}
