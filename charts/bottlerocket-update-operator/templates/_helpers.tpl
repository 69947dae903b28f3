{{/* The image of all programs, by digest if one is set. */}}
{{- define "brupop.image" -}}
{{- with .Values.image -}}
{{- if not .repository -}}
{{- fail "image.repository is empty: set it to the image in your registry, such as registry.example.com/bottlerocket-update-operator" -}}
{{- end -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else if and (not .tag) (contains "+" $.Chart.AppVersion) -}}
{{- fail (printf "image.tag is empty, and appVersion of the chart, %s, can be no tag, since it has a plus sign: set image.tag or image.digest" $.Chart.AppVersion) -}}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The address of the folder docs of this release. Its tag has no build metadata, which Flux adds to the version. */}}
{{- define "brupop.docsUrl" -}}
{{ .Values.docsUrl | default (printf "%s/blob/v%s/docs" .Chart.Home (regexReplaceAll "[+].*" .Chart.Version "")) }}
{{- end -}}

{{/* A version as the value of a label, which has no plus sign and at most 63 characters. */}}
{{- define "brupop.versionLabel" -}}
{{ regexReplaceAll "[._-]+$" (. | replace "+" "_" | trunc 63) "" | quote }}
{{- end -}}

{{/* The namespace of the agents. */}}
{{- define "brupop.agentNamespace" -}}
{{ .Values.agent.namespace | default .Release.Namespace }}
{{- end -}}

{{/* Selector of the pods of a component: dict "component" NAME. It must never change. */}}
{{- define "brupop.selector" -}}
brupop.bottlerocket.aws/component: {{ .component }}
{{- end -}}

{{/*
The following take a component: dict "root" $ "component" NAME "values" .Values.KEY, in which KEY is agent, controller
or apiserver. All three have values of the same shape.
*/}}

{{/* Labels of an object of a component. Users and `kubectl brupop` select by the name, and .Chart.Name may be an alias. */}}
{{- define "brupop.labels" -}}
app.kubernetes.io/name: bottlerocket-update-operator
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/version: {{ include "brupop.versionLabel" .root.Chart.AppVersion }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: bottlerocket-update-operator
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ include "brupop.versionLabel" (printf "%s-%s" .root.Chart.Name .root.Chart.Version) }}
{{- end -}}

{{/*
Labels and annotations of an object of a component, which may have "labels" and "annotations" of its own: something may
select it by these, so they come before those of the chart, and the common ones after both.
*/}}
{{- define "brupop.metadata" -}}
labels:
  {{- $labels := include "brupop.labels" . | fromYaml }}
  {{- merge dict (default dict .labels) $labels (default dict .root.Values.commonLabels) | toYaml | nindent 2 }}
{{- with merge (dict) (default dict .annotations) (default dict .root.Values.commonAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Istio, with sidecars and in ambient mode, whose tunnels to another port the NetworkPolicies do not allow. */}}
{{- define "brupop.meshLabels" -}}
sidecar.istio.io/inject: "false"
istio.io/dataplane-mode: none
{{- end -}}

{{/* Metadata of a component's pods. The labels are those above without the versions, which would restart the pods. */}}
{{- define "brupop.podMetadata" -}}
labels:
  app.kubernetes.io/name: bottlerocket-update-operator
  app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
  app.kubernetes.io/component: {{ .component }}
  {{- include "brupop.selector" . | nindent 2 }}
  {{- /* Behind a proxy all agents would have one address, and the limits of the API server are per address. */}}
  {{- $common := default dict .root.Values.commonLabels }}
  {{- merge dict (default dict .values.podLabels) (include "brupop.meshLabels" . | fromYaml) $common | toYaml | nindent 2 }}
annotations:
  {{- merge dict (default dict .values.podAnnotations) (dict "linkerd.io/inject" "disabled") | toYaml | nindent 2 }}
{{- end -}}

{{/* The fields of a component's pods that all components have in common. */}}
{{- define "brupop.podFields" -}}
terminationGracePeriodSeconds: 30
{{- $secrets := .root.Values.imagePullSecrets | default list }}
{{- range (default dict .root.Values.global).imagePullSecrets }}
{{- $secrets = append $secrets (kindIs "string" . | ternary (dict "name" .) .) }}
{{- end }}
{{- with uniq $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .values.runtimeClassName }}
runtimeClassName: {{ . | quote }}
{{- end }}
{{- with .values.dnsPolicy | default .dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- /* The startup taint may be on the only node for a controller, which alone removes it. */}}
tolerations:
  {{- $starting := dict "key" "brupop.bottlerocket.aws/starting" "operator" "Exists" "effect" "NoSchedule" }}
  {{- append (default list .values.tolerations) $starting | uniq | toYaml | nindent 2 }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Environment variables of every program. */}}
{{- define "brupop.env" -}}
- name: NODE_NAME
  valueFrom: { fieldRef: { fieldPath: spec.nodeName } }
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_UID
  valueFrom: { fieldRef: { fieldPath: metadata.uid } }
- name: POD_NAMESPACE
  valueFrom: { fieldRef: { fieldPath: metadata.namespace } }
- name: POD_IP
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
- name: HEALTH_PORT
  value: {{ .root.Values.healthPort | int | quote }}
- name: LOG_LEVEL
  value: {{ .root.Values.logLevel }}
- name: LOG_FORMAT
  value: {{ .root.Values.logFormat }}
{{- /* The agents know it as their own. */}}
{{- if and .root.Values.agent.namespace (ne .component "brupop-agent") }}
- name: AGENT_NAMESPACE
  value: {{ .root.Values.agent.namespace | quote }}
{{- end }}
{{- with .values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Environment variables of a caller of the API server, in the namespace of the agents. */}}
{{- define "brupop.apiserverEnv" -}}
{{- $name := printf "brupop-apiserver.%s.svc" .Release.Namespace -}}
{{- $host := "$(BRUPOP_APISERVER_SERVICE_HOST)" -}}
{{- $port := "$(BRUPOP_APISERVER_SERVICE_PORT)" -}}
{{- /* A pod has the environment variables of the Services of its own namespace only. */ -}}
{{- if ne (include "brupop.agentNamespace" .) .Release.Namespace -}}
{{- $host = .Values.apiserver.service.clusterIP | default $name -}}
{{- $port = "443" -}}
{{- end -}}
- name: CA_FILE
  value: /etc/brupop-ca/ca.crt
# The cluster IP where it is known: the pods that serve DNS may run on the node that is drained.
- name: APISERVER_HOST
  value: {{ $host | quote }}
- name: APISERVER_PORT
  value: {{ $port | quote }}
- name: APISERVER_SERVER_NAME
  value: {{ $name }}
{{- end -}}

{{/* The volume with CA_FILE. */}}
{{- define "brupop.caVolume" -}}
- name: ca
  configMap:
    name: {{ .Values.tls.caConfigMapName | quote }}
    items:
      - { key: ca.crt, path: ca.crt }
{{- end -}}

{{/* The fields of the container that all components have in common. */}}
{{- define "brupop.containerFields" -}}
image: {{ include "brupop.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args:
  {{- range .values.nodeFlags }}
  - {{ . | quote }}
  {{- end }}
  - /app/{{ .component | trimPrefix "brupop-" }}.mjs
resources:
  {{- toYaml .values.resources | nindent 2 }}
startupProbe:
  httpGet: { path: /livez, port: health }
  periodSeconds: 1
  failureThreshold: 60
livenessProbe:
  httpGet: { path: /livez, port: health }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: health }
  periodSeconds: 5
  timeoutSeconds: 3
  failureThreshold: 2
{{- end -}}

{{/* Security contexts of the programs that do not access the host. */}}
{{- define "brupop.unprivilegedPod" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "brupop.unprivilegedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* A PodDisruptionBudget: maxUnavailable, since a minimum would block all drains when no replica is to spare. */}}
{{- define "brupop.podDisruptionBudget" -}}
{{- with .values.podDisruptionBudget }}
{{- if .enabled -}}
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $.component }}
  namespace: {{ $.root.Release.Namespace | quote }}
  {{- include "brupop.metadata" $ | nindent 2 }}
spec:
  maxUnavailable: {{ .maxUnavailable }}
  # A replica that is not Ready must not block the drain of its node.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "brupop.selector" $ | nindent 6 }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The ServiceAccount of a component, in "namespace" or that of the release. */}}
{{- define "brupop.serviceAccount" -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .component }}
  namespace: {{ .namespace | default .root.Release.Namespace | quote }}
  {{- include "brupop.metadata" (merge (dict "annotations" .values.serviceAccountAnnotations) .) | nindent 2 }}
{{- end -}}

{{/* Egress rules of a NetworkPolicy to the Kubernetes API: the values networkPolicy. */}}
{{- define "brupop.kubernetesEgress" -}}
- ports:
    {{- range .kubernetesPorts }}
    - port: {{ . | int }}
    {{- end }}
  {{- with .kubernetesCIDRs }}
  to:
    {{- range . }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Egress rule of a NetworkPolicy to DNS, wherever it is. */}}
{{- define "brupop.dnsEgress" -}}
- ports:
    - { port: 53, protocol: UDP }
    - { port: 53, protocol: TCP }
{{- end -}}

{{/* Egress rules of a NetworkPolicy to servers of users: a dict of their `ports`, and their peers `to`. */}}
{{- define "brupop.serversEgress" -}}
# Their names.
{{ include "brupop.dnsEgress" . }}
- ports:
    {{- range .ports }}
    - port: {{ . | int }}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* The value dependents.targets, as the controller reads it. */}}
{{- define "brupop.dependents" -}}
{{- range $i, $target := .Values.dependents.targets }}{{ if $i }},{{ end }}{{ printf "%s %s/%s" $target.kind $target.namespace $target.name }}{{ end }}
{{- end -}}

{{/* The fields of an endpoint of a monitor that may be set: the values of the monitor. */}}
{{- define "brupop.endpointFields" -}}
{{- range $key := list "interval" "scrapeTimeout" "relabelings" "metricRelabelings" }}
{{- with index $ $key }}
{{ dict $key . | toYaml }}
{{- end }}
{{- end }}
{{- end -}}

{{/*
What values add to the metadata of a definition, which is in a file that `make generate` writes. Not what protects the
definition from being deleted: the last one of two keys would win.
*/}}
{{- define "brupop.commonAnnotations" -}}
{{- $others := omit (default dict .Values.commonAnnotations) "argocd.argoproj.io/sync-options" "kustomize.toolkit.fluxcd.io/prune" -}}
{{- with $others }}{{ toYaml . }}{{ end }}
{{- end -}}

{{- define "brupop.commonLabels" -}}
{{- with .Values.commonLabels }}{{ dict "labels" . | toYaml }}{{ end }}
{{- end -}}
