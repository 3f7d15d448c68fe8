{{- /* Values that earlier charts had not, with their defaults. helm upgrade --reuse-values replaces
values.yaml by the values of the installed chart, which may lack them. Not here: images of web and mps,
whose templates reject values without them. A test compares this text with values.yaml. */ -}}
{{- define "gputopo.addedValues" -}}
allowDefaultNamespace: false
checkInstalled: true
sharing:
  enabled: false
  maxPodsPerGPU: 3
  minGainPercent: 5
  maxSlowdownPercent: 100
  maxMemoryPercent: 50
  unknownPairs: Exclusive
  loadCapacityPercent: {}
  preference: Shared
  judgeSeconds: 120
operator:
  maxProfilesPerNamespace: 1000
  queue:
    order: ""
    maxSkipSeconds: 3600
  sizing:
    mechanism: marginal
    roundSeconds: 300
extender:
  utilityWeights:
    communication: 34
    interference: 33
    fragmentation: 33
  maxWaitSeconds: 600
  nominateAbove: 0
  relistSeconds: 600
  relistAfterSilenceSeconds: 60
devicePlugin:
  numa:
    publish: Never
    kubeletTLS: ClusterCA
  nri:
    enabled: false
    socket: /var/run/nri/nri.sock
  counters:
    enabled: true
    dcgmExporter: ""
priorityLevels:
  scheduler: ""
  operator: ""
  devicePlugin: ""
podMonitor:
  enabled: false
  labels: {}
  interval: 30s
  kubeSchedulerTokenSecret: ""
serviceMonitor:
  enabled: false
  labels: {}
  interval: 30s
  kubeSchedulerTokenSecret: ""
monitoring:
  dashboards:
    enabled: false
    labels: {grafana_dashboard: "1"}
    annotations: {}
  rules:
    enabled: false
    labels: {}
    runbookUrl: docs/operate/monitoring.md
    podWaitSeconds: 3600
    queueWaitSeconds: 14400
    lostBandwidthPercent: 40
mps:
  logLevel: info
  programDir: ""
  clientUser: null
  sharedMemorySize: 8g
  sharedMemoryFiles: 65536
web:
  enabled: false
  allowedHosts: []
helmTest:
  enabled: true
{{- end -}}

{{- /* Adds the values above to .Values where they are missing, and changes no others. Argument: the root. */ -}}
{{- define "gputopo.addMissingValues" -}}
{{- include "gputopo.addMissing" (list .Values (include "gputopo.addedValues" . | fromYaml)) -}}
{{- end -}}

{{- /* Not merge: it would replace false, 0 and empty values. Arguments: (list values defaults). */ -}}
{{- define "gputopo.addMissing" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if not (hasKey $values $key) -}}
{{- $_ := set $values $key $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (index $values $key)) -}}
{{- include "gputopo.addMissing" (list (index $values $key) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}
