"""The DaemonSet of the node agent that the chart renders."""

from pathlib import Path

import pytest

from gputopo_deviceplugin.settings import AgentSettings
from support.helm_chart import Helm, Object, container, find, pod_of


def test_the_agent_writes_to_two_folders_of_the_host(everything: list[Object]) -> None:
    agent = find(everything, "DaemonSet", "gputopo-deviceplugin")
    mounts = {mount["name"]: mount for mount in container(agent, "deviceplugin")["volumeMounts"]}
    assert [name for name, mount in mounts.items() if not mount.get("readOnly")] == [
        "device-plugins",
        "state",
    ]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod_of(agent)["volumes"]}
    assert paths == {
        "device-plugins": "/data/kubelet/device-plugins",
        "pod-resources": "/data/kubelet/pod-resources",
        "driver-libraries": "/run/nvidia",
        "driver-devices": "/run/nvidia",
        "cgroup": "/sys/fs/cgroup",
        "state": "/run/gputopo",
        "mps": "/run/gputopo-mps",
    }
    assert mounts["cgroup"]["recursiveReadOnly"] == "IfPossible", "cgroup v1 has mounts below it"
    assert (
        f"--cgroup-dir={mounts['cgroup']['mountPath']}" in container(agent, "deviceplugin")["args"]
    )
    assert Path(mounts["state"]["mountPath"]) == AgentSettings(node="n1").state_dir
    assert mounts["state"]["mountPath"] == paths["state"], "containers mount folders of it"


def test_the_times_of_measurements_reach_the_agent(helm: Helm, objects: list[Object]) -> None:
    names = ("warm_up_seconds", "sample_seconds", "resample_seconds", "measure_publish_seconds")
    flags = {f"--{name.replace('_', '-')}": name for name in names}

    def times(rendered: list[Object]) -> dict[str, float]:
        agent = find(rendered, "DaemonSet", "gputopo-deviceplugin")
        given = dict(each.split("=", 1) for each in container(agent, "deviceplugin")["args"])
        return {name: float(given[flag]) for flag, name in flags.items()}

    default = AgentSettings(node="n1")
    assert times(objects) == {name: getattr(default, name) for name in names}
    values = {"warmUpSeconds": 1, "sampleSeconds": 2, "resampleSeconds": 3, "publishSeconds": 4}
    changed = helm.render({"devicePlugin": {"measuring": values}})
    assert times(changed) == dict(zip(names, (1, 2, 3, 4), strict=True))


def test_the_agent_sees_logs_of_containers_only_on_request(
    helm: Helm, objects: list[Object]
) -> None:
    def logs(rendered: list[Object]) -> tuple[list[str], list[Object], list[Object]]:
        agent = find(rendered, "DaemonSet", "gputopo-deviceplugin")
        plugin = container(agent, "deviceplugin")
        return (
            [each for each in plugin["args"] if "logs-dir" in each],
            [each for each in plugin["volumeMounts"] if each["name"] == "pod-logs"],
            [each for each in pod_of(agent)["volumes"] if each["name"] == "pod-logs"],
        )

    assert logs(objects) == ([], [], [])
    assert logs(helm.render({"devicePlugin": {"measuring": {"podLogs": True}}})) == (
        ["--pod-logs-dir=/host/pod-logs"],
        [{"name": "pod-logs", "mountPath": "/host/pod-logs", "readOnly": True}],
        [{"name": "pod-logs", "hostPath": {"path": "/var/log/pods", "type": "Directory"}}],
    )


def test_the_agent_reads_counters_unless_it_must_not(helm: Helm, objects: list[Object]) -> None:
    def found(rendered: list[Object]) -> tuple[list[str], list[Object]]:
        plugin = container(find(rendered, "DaemonSet", "gputopo-deviceplugin"), "deviceplugin")
        args = [each for each in plugin["args"] if "counters" in each or "dcgm" in each]
        return args, [each for each in plugin["env"] if each["name"] == "HOST_IP"]

    def render(**counters: object) -> list[Object]:
        policies = {"networkPolicy": {"enabled": True}}
        return helm.render({"devicePlugin": {"counters": counters}, **policies})

    assert found(objects) == ([], [])
    assert found(render(enabled=False)) == (["--counters=Off"], [])
    by_name = "http://dcgm-exporter.monitoring:9400/metrics"
    assert found(render(dcgmExporter=by_name)) == ([f"--dcgm-exporter={by_name}"], [])
    by_node = render(dcgmExporter="http://$(HOST_IP):9400/metrics")
    assert found(by_node) == (
        ["--dcgm-exporter=http://$(HOST_IP):9400/metrics"],
        [{"name": "HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}],
    )
    policy = find(by_node, "NetworkPolicy", "gputopo-deviceplugin")
    assert {"ports": [{"protocol": "TCP", "port": 9400}]} in policy["spec"]["egress"]


def test_only_the_agent_may_connect_to_pods(everything: list[Object]) -> None:
    to_pods: Object = {"to": [{"namespaceSelector": {}}]}
    policies = [each for each in everything if each["kind"] == "NetworkPolicy"]
    found = [each["metadata"]["name"] for each in policies if to_pods in each["spec"]["egress"]]
    assert found == ["gputopo-deviceplugin"]


def test_device_injection_reaches_the_agent(
    objects: list[Object], everything: list[Object]
) -> None:
    def arguments(rendered: list[Object]) -> list[str]:
        agent = find(rendered, "DaemonSet", "gputopo-deviceplugin")["spec"]["template"]["spec"]
        found: list[str] = agent["containers"][0]["args"]
        return found

    assert "--device-injection=DeviceNodes" in arguments(objects)
    assert {"--device-injection=CDI", "--cdi-kind=example.org/gpu"} <= {*arguments(everything)}


DRIVER_FOLDERS = {
    # folder of the driver: folder of the host that is mounted, what follows it in the container
    "/usr/lib/x86_64-linux-gnu": ("/usr/lib", "/x86_64-linux-gnu"),
    "/usr/lib64": ("/usr", "/lib64"),
    "/lib64": ("/lib64", ""),
    "/home/kubernetes/bin/nvidia/lib64": ("/home/kubernetes/bin/nvidia", "/lib64"),
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu": (
        "/run/nvidia",
        "/driver/usr/lib/x86_64-linux-gnu",
    ),
    "/run/nvidia": ("/run/nvidia", ""),
}


def test_the_agent_may_read_the_configuration_of_kubelets_only_on_request(
    helm: Helm, objects: list[Object]
) -> None:
    def rules(rendered: list[Object]) -> list[Object]:
        found: list[Object] = find(rendered, "ClusterRole", "gputopo-deviceplugin")["rules"]
        return [rule for rule in found if any("/" in name for name in rule["resources"])]

    def flags(rendered: list[Object]) -> list[str]:
        (agent,) = pod_of(find(rendered, "DaemonSet", "gputopo-deviceplugin"))["containers"]
        return [each for each in agent["args"] if each.startswith(("--publish-numa", "--kubelet"))]

    def ports(rendered: list[Object]) -> list[int]:
        policy = find(rendered, "NetworkPolicy", "gputopo-deviceplugin")
        each = [rule.get("ports", []) for rule in policy["spec"]["egress"]]
        return [port["port"] for ports in each for port in ports]

    assert flags(objects) == ["--publish-numa=Never", "--kubelet-tls=ClusterCA"]
    assert all("nodes/configz" not in rule["resources"] for rule in rules(objects))
    network = {"networkPolicy": {"enabled": True}}
    assert 10250 not in ports(helm.render(network))
    numa = {"numa": {"publish": "PolicyNone", "kubeletTLS": "Insecure"}}
    rendered = helm.render({"devicePlugin": numa, **network})
    assert flags(rendered) == ["--publish-numa=PolicyNone", "--kubelet-tls=Insecure"]
    wanted = {"apiGroups": [""], "resources": ["nodes/configz"], "verbs": ["get"]}
    assert wanted in rules(rendered)
    assert 10250 in ports(rendered)


def test_the_agent_gets_the_nri_socket_only_on_request(helm: Helm, objects: list[Object]) -> None:
    def mounted(rendered: list[Object]) -> list[str]:
        pod = pod_of(find(rendered, "DaemonSet", "gputopo-deviceplugin"))
        return [each["hostPath"]["path"] for each in pod["volumes"] if each["name"] == "nri"]

    def flags(rendered: list[Object]) -> list[str]:
        (agent,) = pod_of(find(rendered, "DaemonSet", "gputopo-deviceplugin"))["containers"]
        return [each for each in agent["args"] if each.startswith("--nri")]

    assert mounted(objects) == flags(objects) == []
    chosen = {"nri": {"enabled": True, "socket": "/run/other/a.sock"}}
    rendered = helm.render({"devicePlugin": chosen, "networkPolicy": {"enabled": True}})
    assert mounted(rendered) == ["/run/other"]
    assert flags(rendered) == ["--nri-socket=/host/nri/a.sock"]
    rules = find(rendered, "ClusterRole", "gputopo-deviceplugin")["rules"]
    assert {"apiGroups": [""], "resources": ["nodes/configz"], "verbs": ["get"]} in rules
    policy = find(rendered, "NetworkPolicy", "gputopo-deviceplugin")
    ports = [port["port"] for rule in policy["spec"]["egress"] for port in rule.get("ports", [])]
    assert 10250 in ports


@pytest.mark.parametrize("folder", DRIVER_FOLDERS)
def test_agent_starts_without_the_folder_of_the_driver(helm: Helm, folder: str) -> None:
    rendered = helm.render(
        {"devicePlugin": {"driver": {"libraryDir": folder, "deviceDir": folder}}}
    )
    agent = find(rendered, "DaemonSet", "gputopo-deviceplugin")
    mounted, rest = DRIVER_FOLDERS[folder]
    volumes = {each["name"]: each["hostPath"] for each in pod_of(agent)["volumes"]}
    plugin = container(agent, "deviceplugin")
    mounts = {each["name"]: each for each in plugin["volumeMounts"]}
    for name, path in {"driver-libraries": "/driver/lib", "driver-devices": "/driver/dev"}.items():
        # An existing folder is only mounted; kubelet creates no more than a folder below /run.
        assert volumes[name] == {"path": mounted, "type": "DirectoryOrCreate"}
        assert mounts[name]["mountPath"] == path
        assert mounts[name]["readOnly"] is True
        # A driver container mounts its file system below /run after the agent has started.
        propagation = "HostToContainer" if folder.startswith("/run/") else None
        assert mounts[name].get("mountPropagation") == propagation
    assert f"--library-dir=/driver/lib{rest}" in plugin["args"]
    assert f"--device-mount=/driver/dev{rest}" in plugin["args"]
    assert f"--device-dir={folder}" in plugin["args"], "as the host names it"


def test_agent_finds_libraries_and_devices_of_a_host_by_default(
    objects: list[Object],
) -> None:
    agent = find(objects, "DaemonSet", "gputopo-deviceplugin")
    plugin = container(agent, "deviceplugin")
    assert {
        "--library-dir=/driver/lib/x86_64-linux-gnu",
        "--device-dir=/dev",
        "--device-mount=/driver/dev",
    } <= set(plugin["args"])
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod_of(agent)["volumes"]}
    assert (paths["driver-libraries"], paths["driver-devices"]) == ("/usr/lib", "/dev")
    assert not any("mountPropagation" in mount for mount in plugin["volumeMounts"])


def test_agent_runs_on_every_tainted_node_with_high_priority(objects: list[Object]) -> None:
    pod = pod_of(find(objects, "DaemonSet", "gputopo-deviceplugin"))
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["priorityClassName"] == "system-node-critical"


def test_only_the_agent_can_be_privileged_and_only_by_its_value(everything: list[Object]) -> None:
    agent = find(everything, "DaemonSet", "gputopo-deviceplugin")
    assert container(agent, "deviceplugin")["securityContext"]["privileged"] is True
    assert pod_of(agent)["runtimeClassName"] == "nvidia"
    scheduler = find(everything, "Deployment", "gputopo-scheduler")
    assert "privileged" not in container(scheduler, "extender")["securityContext"]


def test_agent_has_selinux_options_only_by_its_value(helm: Helm, objects: list[Object]) -> None:
    options = {"type": "container_device_plugin_t", "level": "s0"}
    for privileged in (False, True):
        values = {"devicePlugin": {"seLinuxOptions": options, "privileged": privileged}}
        agent = find(helm.render(values), "DaemonSet", "gputopo-deviceplugin")
        context = container(agent, "deviceplugin")["securityContext"]
        assert context["seLinuxOptions"] == options
        assert context.get("privileged", False) == privileged
    agent = find(objects, "DaemonSet", "gputopo-deviceplugin")
    assert "seLinuxOptions" not in container(agent, "deviceplugin")["securityContext"]
