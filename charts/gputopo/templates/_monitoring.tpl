{{- /* How Prometheus labels what it reads. Metrics about a job have the labels namespace and pod of the
job, which must not be replaced by those of the component. The alerts name the node of an agent. */ -}}
{{- define "gputopo.scrapeLabels" -}}
honorLabels: true
relabelings:
  - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
{{- end -}}

{{- /* How Prometheus reads kube-scheduler itself, with the token of a Secret that the user creates.
kube-scheduler creates its certificate at its start, so nothing can verify it. */ -}}
{{- define "gputopo.kubeSchedulerScrape" -}}
scheme: https
tlsConfig: {insecureSkipVerify: true}
authorization:
  credentials: {name: {{ . }}, key: token}
{{ include "gputopo.scrapeLabels" . }}
{{- end -}}
