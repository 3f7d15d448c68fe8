{{- define "gputopo.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 48 | trimSuffix "-" -}}
{{- end -}}

{{- define "gputopo.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 48 | trimSuffix "-" -}}
{{- else if contains (include "gputopo.name" .) .Release.Name -}}
{{- .Release.Name | trunc 48 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "gputopo.name" .) | trunc 48 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* Labels of selectors, which an upgrade must not change. Arguments: (list root component). */ -}}
{{- define "gputopo.selectorLabels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "gputopo.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "gputopo.labels" -}}
{{- $root := index . 0 -}}
{{ include "gputopo.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: gputopo
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- /* Arguments: (dict "image" image "default" tag). */ -}}
{{- define "gputopo.image" -}}
{{- if .image.digest -}}
{{- printf "%s@%s" .image.repository .image.digest -}}
{{- else -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .default) -}}
{{- end -}}
{{- end -}}

{{- /* The cluster's version may be v1.33.4-gke.5; the tag of kube-scheduler's image is v1.33.4. */ -}}
{{- define "gputopo.clusterVersion" -}}
{{- printf "v%s" (regexFind "[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{- define "gputopo.username" -}}
{{- $root := index . 0 -}}
{{- printf "system:serviceaccount:%s:%s-%s" $root.Release.Namespace (include "gputopo.fullname" $root) (index . 1) -}}
{{- end -}}

{{- /* Security context of every pod without privileges. */ -}}
{{- define "gputopo.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "gputopo.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Folder of the host to mount for a folder of the driver (the argument); it exists on every node.
Not the folder itself: it is missing without a driver, and kubelet cannot create it on a read-only /usr.
Below /run a driver container may mount its file system later, which only a mount of a parent folder shows. */ -}}
{{- define "gputopo.mountedFolder" -}}
{{- if hasPrefix "/run/" . -}}
{{- printf "/run/%s" (index (splitList "/" .) 2) -}}
{{- else if eq (dir .) "/" -}}
{{- . -}}
{{- else -}}
{{- dir . -}}
{{- end -}}
{{- end -}}

{{- /* Further options of the mount of a host folder (the argument), with a leading comma. */ -}}
{{- define "gputopo.propagation" -}}
{{- if hasPrefix "/run/" . -}}, mountPropagation: HostToContainer{{- end -}}
{{- end -}}

{{- /* Where a pod may run. Argument: the component's values. */ -}}
{{- define "gputopo.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Annotations of the accounts and rights of helm test. Argument: the weight; lower ones come first. */ -}}
{{- define "gputopo.testHook" -}}
helm.sh/hook: test
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{- /* The resource that counts shares of GPUs. */ -}}
{{- define "gputopo.shareResource" -}}
{{ .Values.resourceName }}-share
{{- end -}}

{{- /* Flags about sharing of the programs that decide which pods share GPUs. Argument: values of sharing. */ -}}
{{- define "gputopo.sharingFlags" -}}
- --sharing-min-gain-percent={{ int .minGainPercent }}
- --sharing-max-slowdown-percent={{ int .maxSlowdownPercent }}
- --sharing-max-memory-percent={{ int .maxMemoryPercent }}
- --sharing-unknown-pairs={{ .unknownPairs }}
- --sharing-preference={{ .preference }}
{{- $capacities := list }}
{{- range $model, $percent := .loadCapacityPercent }}
{{- $capacities = append $capacities (printf "%s=%d" $model (int $percent)) }}
{{- end }}
{{- with $capacities }}
- {{ printf "--sharing-load-capacity=%s" (join "," .) | quote }}
{{- end }}
{{- end -}}

{{- /* matchConditions of a policy: pods that request GPUs, except mirror pods. */ -}}
{{- define "gputopo.gpuPodConditions" -}}
- name: requests-gpus
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
    {{ .Values.resourceName | squote }} in c.?resources.?limits.orValue({}) ||
    {{ .Values.resourceName | squote }} in c.?resources.?requests.orValue({})
    {{- if .Values.sharing.enabled }} ||
    {{ include "gputopo.shareResource" . | squote }} in c.?resources.?limits.orValue({}) ||
    {{ include "gputopo.shareResource" . | squote }} in c.?resources.?requests.orValue({})
    {{- end }})
# Mirror pods are exempt. A mirror pod is only the API object of a static pod, which kubelet runs
# without the API server. If a static pod requests GPUs, the agent makes kubelet reject the pod, because
# the extender chose no GPUs for the pod.
- name: not-a-mirror-pod
  expression: >-
    !('system:nodes' in request.userInfo.groups &&
    'kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))
{{- end -}}

{{/* Not empty if the agent reads the configuration of the kubelet of its node. */}}
{{- define "gputopo.readsKubelet" -}}
{{- if or (ne .Values.devicePlugin.numa.publish "Never") .Values.devicePlugin.nri.enabled }}true{{ end }}
{{- end }}
