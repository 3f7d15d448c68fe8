// Merges NUMA hints with the topology manager of kubelet, for comparison with gputopo's prediction.
//
// It reads one JSON object per line from standard input, and writes one per line. Masks have bit i
// for NUMA node i. In "hints", null is a resource without hints, and [] one that fits nowhere.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"os"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

type hint struct {
	Mask      uint64 `json:"mask"`
	Preferred bool   `json:"preferred"`
}

type request struct {
	Policy string   `json:"policy"`
	Nodes  []int    `json:"nodes"`
	Hints  [][]hint `json:"hints"`
}

type response struct {
	Mask     *uint64 `json:"mask"`
	Admitted bool    `json:"admitted"`
}

func main() {
	klog.SetOutput(io.Discard)
	klog.LogToStderr(false)
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 16<<20)
	output := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(output)
	for input.Scan() {
		var each request
		if err := json.Unmarshal(input.Bytes(), &each); err != nil {
			fail(err)
		}
		if err := encoder.Encode(merge(each)); err != nil {
			fail(err)
		}
	}
	if err := input.Err(); err != nil {
		fail(err)
	}
	if err := output.Flush(); err != nil {
		fail(err)
	}
}

func merge(from request) response {
	options := topologymanager.PolicyOptions{MaxAllowableNUMANodes: 64}
	info := &topologymanager.NUMAInfo{Nodes: from.Nodes, NUMADistances: topologymanager.NUMADistances{}}
	best, admitted := policy(from.Policy, info, options).Merge(klog.Background(), providers(from.Hints))
	if best.NUMANodeAffinity == nil {
		return response{nil, admitted}
	}
	var mask uint64
	for _, bit := range best.NUMANodeAffinity.GetBits() {
		mask |= 1 << uint(bit)
	}
	return response{&mask, admitted}
}

func policy(
	name string, info *topologymanager.NUMAInfo, options topologymanager.PolicyOptions,
) topologymanager.Policy {
	switch name {
	case topologymanager.PolicyBestEffort:
		return topologymanager.NewBestEffortPolicy(info, options)
	case topologymanager.PolicyRestricted:
		return topologymanager.NewRestrictedPolicy(info, options)
	case topologymanager.PolicySingleNumaNode:
		return topologymanager.NewSingleNumaNodePolicy(info, options)
	}
	return topologymanager.NewNonePolicy()
}

// providers makes one hint provider for each resource, as the managers of devices, CPUs and memory.
func providers(resources [][]hint) []map[string][]topologymanager.TopologyHint {
	var found []map[string][]topologymanager.TopologyHint
	for number, hints := range resources {
		var converted []topologymanager.TopologyHint
		if hints != nil {
			converted = []topologymanager.TopologyHint{}
		}
		for _, each := range hints {
			mask, err := bitmask.NewBitMask(bitsOf(each.Mask)...)
			if err != nil {
				fail(err)
			}
			converted = append(converted, topologymanager.TopologyHint{
				NUMANodeAffinity: mask, Preferred: each.Preferred,
			})
		}
		name := fmt.Sprintf("resource-%d", number)
		found = append(found, map[string][]topologymanager.TopologyHint{name: converted})
	}
	return found
}

func bitsOf(mask uint64) []int {
	var found []int
	for ; mask != 0; mask &= mask - 1 {
		found = append(found, bits.TrailingZeros64(mask))
	}
	return found
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
