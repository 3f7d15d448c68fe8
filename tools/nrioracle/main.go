// Runs the runtime side of NRI, with the package that containerd uses, for tests of gputopo's plugin.
//
// Arguments: the path of the socket. It keeps a list of pods and containers, as a runtime does. It
// reads one JSON object per line from standard input, and writes one per line: one for each command,
// and one with "event" for each plugin that was synchronized or updates containers. Pods and containers are protobuf messages
// of NRI in base64.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"google.golang.org/protobuf/proto"
)

type command struct {
	// seed and forget change the list without a plugin; the others are events.
	Do        string `json:"do"`
	Pod       []byte `json:"pod"`
	Container []byte `json:"container"`
	Shares    uint64 `json:"shares"`
}

type response struct {
	Event   string            `json:"event,omitempty"`
	Adjust  string            `json:"adjust,omitempty"`
	Updates map[string]string `json:"updates"`
	Error   string            `json:"error,omitempty"`
}

type runtime struct {
	sync.Mutex
	socket     string
	nri        *adaptation.Adaptation
	starting   bool
	pods       map[string]*api.PodSandbox
	containers map[string]*api.Container
	order      []string
	output     *json.Encoder
}

func main() {
	r := &runtime{
		socket:     os.Args[1],
		pods:       map[string]*api.PodSandbox{},
		containers: map[string]*api.Container{},
		output:     json.NewEncoder(os.Stdout),
	}
	// A plugin that is too slow is closed. The limits are long, because the tests measure no time.
	adaptation.SetPluginRegistrationTimeout(time.Minute)
	adaptation.SetPluginRequestTimeout(time.Minute)
	r.start()
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 64<<20)
	for input.Scan() {
		var each command
		check(json.Unmarshal(input.Bytes(), &each))
		reply := r.do(each)
		r.Lock()
		check(r.output.Encode(reply))
		r.Unlock()
	}
	check(input.Err())
}

func (r *runtime) start() {
	folder := filepath.Dir(r.socket)
	nri, err := adaptation.New("test", "v0", r.synchronize, r.updateContainers,
		adaptation.WithSocketPath(r.socket),
		adaptation.WithPluginPath(filepath.Join(folder, "plugins")),
		adaptation.WithPluginConfigPath(filepath.Join(folder, "conf.d")))
	check(err)
	r.starting = true // Start also synchronizes, with the plugins that it has started itself
	check(nri.Start())
	r.starting = false
	r.nri = nri
}

func (r *runtime) synchronize(ctx context.Context, send adaptation.SyncCB) error {
	r.Lock()
	defer r.Unlock()
	var pods []*api.PodSandbox
	var containers []*api.Container
	for _, pod := range r.pods {
		pods = append(pods, pod)
	}
	for _, id := range r.order {
		if container, found := r.containers[id]; found {
			containers = append(containers, proto.Clone(container).(*api.Container))
		}
	}
	updates, err := send(ctx, pods, containers)
	applied := r.apply(updates)
	if !r.starting {
		check(r.output.Encode(response{"synchronized", "", applied, text(err)}))
	}
	return err
}

func (r *runtime) updateContainers(
	_ context.Context, updates []*api.ContainerUpdate,
) ([]*api.ContainerUpdate, error) {
	r.Lock()
	defer r.Unlock()
	check(r.output.Encode(response{Event: "updated", Updates: r.apply(updates)}))
	return nil, nil
}

// apply stores the CPUs of the updates and returns them by container.
func (r *runtime) apply(updates []*api.ContainerUpdate) map[string]string {
	found := map[string]string{}
	for _, each := range updates {
		if each == nil { // the container of an update event, if no plugin changes it
			continue
		}
		cpus := each.GetLinux().GetResources().GetCpu().GetCpus()
		found[each.ContainerId] = cpus
		if container, known := r.containers[each.ContainerId]; known && cpus != "" {
			container.Linux.Resources.Cpu.Cpus = cpus
		}
	}
	return found
}

func (r *runtime) do(each command) response {
	pod, container := &api.PodSandbox{}, &api.Container{}
	check(proto.Unmarshal(each.Pod, pod))
	check(proto.Unmarshal(each.Container, container))
	if known, found := r.containers[container.Id]; found && each.Do != "seed" && each.Do != "create" {
		pod, container = r.pods[known.PodSandboxId], known
	}
	ctx, id := context.Background(), container.Id
	switch each.Do {
	case "seed":
		r.add(pod, container)
	case "forget":
		r.forget(id)
	case "create":
		request := &api.CreateContainerRequest{Pod: pod, Container: proto.Clone(container).(*api.Container)}
		reply, err := r.nri.CreateContainer(ctx, request)
		if err != nil {
			return response{Error: text(err)}
		}
		r.add(pod, container)
		cpus := reply.GetAdjust().GetLinux().GetResources().GetCpu().GetCpus()
		if cpus != "" {
			container.Linux.Resources.Cpu.Cpus = cpus
		}
		return response{Adjust: cpus, Updates: r.apply(reply.GetUpdate())}
	case "start":
		container.State = api.ContainerState_CONTAINER_RUNNING
		err := r.nri.PostStartContainer(ctx, &api.PostStartContainerRequest{Pod: pod, Container: container})
		return response{Error: text(err)}
	case "update":
		resources := &api.LinuxResources{Cpu: &api.LinuxCPU{Shares: api.UInt64(each.Shares)}}
		reply, err := r.nri.UpdateContainer(ctx, &api.UpdateContainerRequest{
			Pod: pod, Container: proto.Clone(container).(*api.Container), LinuxResources: resources,
		})
		container.Linux.Resources.Cpu.Shares = api.UInt64(each.Shares)
		return response{Updates: r.apply(reply.GetUpdate()), Error: text(err)}
	case "stop":
		reply, err := r.nri.StopContainer(ctx, &api.StopContainerRequest{Pod: pod, Container: container})
		container.State = api.ContainerState_CONTAINER_STOPPED
		return response{Updates: r.apply(reply.GetUpdate()), Error: text(err)}
	case "remove":
		err := r.nri.RemoveContainer(ctx, &api.RemoveContainerRequest{Pod: pod, Container: container})
		r.forget(id)
		return response{Error: text(err)}
	default:
		check(fmt.Errorf("unknown command %q", each.Do))
	}
	return response{}
}

func (r *runtime) add(pod *api.PodSandbox, container *api.Container) {
	r.Lock()
	defer r.Unlock()
	r.pods[pod.Id] = pod
	r.containers[container.Id] = container
	r.order = append(r.order, container.Id)
}

func (r *runtime) forget(id string) {
	r.Lock()
	defer r.Unlock()
	delete(r.containers, id)
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
