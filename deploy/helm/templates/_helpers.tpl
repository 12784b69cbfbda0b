{{- define "doorbuster.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "doorbuster.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) | quote -}}
{{- end -}}

{{- define "doorbuster.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "doorbuster.name" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Labels by which pods are selected. Argument: { root, component }. */}}
{{- define "doorbuster.selector" -}}
app.kubernetes.io/name: doorbuster
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "doorbuster.labels" -}}
{{ include "doorbuster.selector" . }}
app.kubernetes.io/version: {{ default .root.Chart.AppVersion .root.Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "doorbuster.podSecurity" -}}
runAsNonRoot: true
# The user `node` of the image.
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "doorbuster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end -}}

{{/* Secrets by reference, in a stable order. */}}
{{- define "doorbuster.secretEnv" -}}
{{- range $name, $from := .Values.secrets }}
- name: {{ $name }}
  valueFrom: { secretKeyRef: { name: {{ $from.name }}, key: {{ $from.key }} } }
{{- end }}
{{- end -}}

{{- define "doorbuster.volumeMounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if .Values.certificates.secretName }}
- { name: certificates, mountPath: /etc/doorbuster/certificates, readOnly: true }
{{- end }}
{{- end -}}

{{- define "doorbuster.volumes" -}}
- name: tmp
  emptyDir: { sizeLimit: 64Mi }
{{- if .Values.certificates.secretName }}
- name: certificates
  secret: { secretName: {{ .Values.certificates.secretName }} }
{{- end }}
{{- end -}}

{{/* Pods of a component on different hosts and in different zones. */}}
{{- define "doorbuster.spread" -}}
{{- $selector := include "doorbuster.selector" . -}}
{{- $when := .root.Values.topologySpread.whenUnsatisfiable -}}
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: {{ $when }}
  labelSelector:
    matchLabels:
      {{- $selector | nindent 6 }}
  # Counts the pods of one revision, so that an update ends as evenly as it began.
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end -}}

{{/* What a pod of either component has. Argument: { root, component, values }. */}}
{{- define "doorbuster.podPlacement" -}}
serviceAccountName: {{ include "doorbuster.serviceAccount" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "doorbuster.podSecurity" . | nindent 2 }}
terminationGracePeriodSeconds: {{ .values.terminationGracePeriodSeconds }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- if .root.Values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- include "doorbuster.spread" . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* A rule of egress to peers; without peers to everywhere. Argument: { to, ports }. */}}
{{- define "doorbuster.egress" -}}
- ports:
    {{- range .ports }}
    - { protocol: TCP, port: {{ . }} }
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
