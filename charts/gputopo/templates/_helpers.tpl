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

{{- /* Selectors never change: they hold nothing that an upgrade may alter. Takes (list root component). */ -}}
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

{{- /* Takes (dict "image" image "default" tag). */ -}}
{{- define "gputopo.image" -}}
{{- printf "%s:%s" .image.repository (.image.tag | default .default) -}}
{{- end -}}

{{- /* A provider's version may be v1.33.4-gke.5; kube-scheduler's image has v1.33.4. */ -}}
{{- define "gputopo.clusterVersion" -}}
{{- printf "v%s" (regexFind "[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{- define "gputopo.username" -}}
{{- $root := index . 0 -}}
{{- printf "system:serviceaccount:%s:%s-%s" $root.Release.Namespace (include "gputopo.fullname" $root) (index . 1) -}}
{{- end -}}

{{- /* What every pod says of itself that is not privileged in any way. */ -}}
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

{{- /* Takes a folder of the driver; the folder of the host to mount for it, which exists on every node.
Not the folder itself: without a driver it is missing, and where /usr is read-only kubelet cannot create
it. Below /run a driver container mounts its file system when it likes, which is seen only from above. */ -}}
{{- define "gputopo.mountedFolder" -}}
{{- if hasPrefix "/run/" . -}}
{{- printf "/run/%s" (index (splitList "/" .) 2) -}}
{{- else if eq (dir .) "/" -}}
{{- . -}}
{{- else -}}
{{- dir . -}}
{{- end -}}
{{- end -}}

{{- /* Takes a folder of the host that is mounted; further options of its mount, the comma in front. */ -}}
{{- define "gputopo.propagation" -}}
{{- if hasPrefix "/run/" . -}}, mountPropagation: HostToContainer{{- end -}}
{{- end -}}

{{- /* Where a pod may run. Takes the component's values. */ -}}
{{- define "gputopo.placement" -}}
priorityClassName: {{ .priorityClassName }}
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

{{- /* matchConditions of a policy: pods that request GPUs, mirror pods left out. */ -}}
{{- define "gputopo.gpuPodConditions" -}}
- name: asks-for-our-resource
  expression: >-
    (object.spec.containers + object.spec.?initContainers.orValue([])).exists(c,
    {{ .Values.resourceName | squote }} in c.?resources.?limits.orValue({}) ||
    {{ .Values.resourceName | squote }} in c.?resources.?requests.orValue({}))
# A mirror pod only shows a static pod that its kubelet has let in or refused already: refusing the
# picture would hide it. Its agent fails it, for nobody chose its GPUs.
- name: not-a-mirror-pod
  expression: >-
    !('system:nodes' in request.userInfo.groups &&
    'kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))
{{- end -}}
