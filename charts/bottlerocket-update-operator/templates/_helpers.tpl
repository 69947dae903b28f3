{{/* The image of all programs, by digest if one is set. */}}
{{- define "brupop.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Selector of the pods of a component; it must never change: dict "component" NAME. */}}
{{- define "brupop.selector" -}}
brupop.bottlerocket.aws/component: {{ .component }}
{{- end -}}

{{/* Labels of an object of a component: dict "root" $ "component" NAME. */}}
{{- define "brupop.labels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/component: {{ .component }}
app.kubernetes.io/part-of: {{ .root.Chart.Name }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Labels of a component's pods: those above without the versions, which would restart the pods. */}}
{{- define "brupop.podLabels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{ include "brupop.selector" . }}
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
  value: '8080'
- name: LOG_LEVEL
  value: {{ .Values.logLevel }}
{{- end -}}

{{/* Probes of every program. */}}
{{- define "brupop.probes" -}}
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
