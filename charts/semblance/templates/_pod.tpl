{{/* Settings that the restricted Pod Security Standard requires. */}}
{{- define "semblance.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "semblance.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "semblance.pullSecrets" -}}
{{- with .Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Scheduling of a Pod: (dict "root" $ "component" "gateway" "values" .Values.gateway "many" true). */}}
{{- define "semblance.scheduling" -}}
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
{{- if .values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- toYaml .values.topologySpreadConstraints | nindent 2 }}
{{- else if .many }}
topologySpreadConstraints:
  {{- range $key := list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ $key }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "semblance.selectorLabels" $ | nindent 8 }}
        {{- with $.poolName }}
        semblance.dev/pool: {{ . }}
        {{- end }}
  {{- end }}
{{- end }}
{{- with .values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/*
Environment of a container, as a list: the variables of the chart (YAML in "base"), then those of the values, which
replace entries of the same name. Each name occurs once, because server-side apply refuses duplicates.
*/}}
{{- define "semblance.env" -}}
{{- $entries := dict -}}
{{- $order := list -}}
{{- range concat (.base | fromYamlArray) (.root.Values.extraEnv) (.extra | default list) -}}
{{- if not (hasKey $entries .name) }}{{ $order = append $order .name }}{{ end -}}
{{- $_ := set $entries .name . -}}
{{- end -}}
{{- $list := list -}}
{{- range $order }}{{ $list = append $list (get $entries .) }}{{ end -}}
{{- toYaml $list -}}
{{- end -}}

{{/* Environment of every service and agent. */}}
{{- define "semblance.baseEnv" -}}
- name: SEMBLANCE_LOG_LEVEL
  value: {{ .Values.logLevel }}
- name: SEMBLANCE_HEALTH_LISTEN
  value: 0.0.0.0:8081
- name: HOME
  value: /tmp
- name: SEMBLANCE_INTERNAL_TOKEN
  valueFrom:
    secretKeyRef: { name: {{ include "semblance.internalSecret" . }}, key: internal-token }
{{- if ne .Values.tls.mode "off" }}
- name: SEMBLANCE_TLS_DIR
  value: /etc/semblance/tls
{{- else }}
- name: SEMBLANCE_TLS_BY_NETWORK
  value: "true"
{{- end }}
{{ include "semblance.caEnv" . }}
{{- end -}}

{{/* Certificate authorities from the values, trusted in addition to those of Node.js. */}}
{{- define "semblance.caEnv" -}}
{{- with .Values.caBundle }}
{{- if or .existingSecret .existingConfigMap }}
- name: NODE_EXTRA_CA_CERTS
  value: /etc/semblance/ca/ca.crt
{{- end }}
{{- end }}
{{- end -}}

{{- define "semblance.namespaceEnv" -}}
- name: SEMBLANCE_NAMESPACE
  valueFrom:
    fieldRef: { fieldPath: metadata.namespace }
{{- end -}}

{{/* Location of the object store: (dict "root" $ "gateway" true). */}}
{{- define "semblance.objectsEnv" -}}
{{- $root := .root -}}
{{- $s3 := $root.Values.objects.s3 -}}
- name: SEMBLANCE_PUBLIC_URL
  value: {{ include "semblance.publicUrl" $root }}
- name: SEMBLANCE_OBJECTS_INTERNAL_URL
  value: {{ include "semblance.gatewayOrigin" $root }}
{{- if $s3.bucket }}
{{- $path := "" }}
{{- with trimAll "/" $s3.prefix }}{{ $path = printf "/%s" . }}{{ end }}
{{- $query := printf "region=%s" (urlquery $s3.region) }}
{{- with $s3.endpoint }}{{ $query = printf "%s&endpoint=%s" $query (urlquery .) }}{{ end }}
{{- with $s3.publicEndpoint }}{{ $query = printf "%s&publicEndpoint=%s" $query (urlquery .) }}{{ end }}
{{- if $s3.forcePathStyle }}{{ $query = printf "%s&forcePathStyle=true" $query }}{{ end }}
- name: SEMBLANCE_OBJECTS_URL
  value: {{ printf "s3://%s%s?%s" $s3.bucket $path $query | quote }}
{{- with $s3.existingSecret }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: { name: {{ . }}, key: access-key-id }
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: { name: {{ . }}, key: secret-access-key }
- name: AWS_SESSION_TOKEN
  valueFrom:
    secretKeyRef: { name: {{ . }}, key: session-token, optional: true }
{{- end }}
{{- else }}
- name: SEMBLANCE_OBJECTS_URL
  value: {{ ternary "file:///var/lib/semblance/objects" (include "semblance.gatewayOrigin" $root) .gateway }}
- name: SEMBLANCE_OBJECTS_SIGNING_KEY
  valueFrom:
    secretKeyRef: { name: {{ include "semblance.internalSecret" $root }}, key: objects-signing-key }
{{- end }}
{{- end -}}

{{/* Volumes and mounts of every service and agent: (dict "root" $ "component" "gateway"). */}}
{{- define "semblance.baseVolumes" -}}
- name: tmp
  emptyDir: {}
{{- if ne .root.Values.tls.mode "off" }}
- name: tls
  secret:
    secretName: {{ include "semblance.tlsSecret" . }}
    defaultMode: 288 # 0440
    {{- if eq .component "agent" }}
    # An agent makes its key and certificate itself; no two agents share one.
    items: [{ key: ca.crt, path: ca.crt }]
    {{- else if eq .root.Values.tls.mode "generated" }}
    # A Pod waits for these keys, which the chart's Job fills in.
    items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }, { key: ca.crt, path: ca.crt }]
    {{- end }}
{{- end }}
{{- with .root.Values.caBundle }}
{{- if .existingSecret }}
- name: ca
  secret:
    secretName: {{ .existingSecret }}
    items: [{ key: {{ .key | quote }}, path: ca.crt }]
{{- else if .existingConfigMap }}
- name: ca
  configMap:
    name: {{ .existingConfigMap }}
    items: [{ key: {{ .key | quote }}, path: ca.crt }]
{{- end }}
{{- end }}
{{- end -}}
{{- define "semblance.baseMounts" -}}
- name: tmp
  mountPath: /tmp
{{- if ne .root.Values.tls.mode "off" }}
- name: tls
  mountPath: /etc/semblance/tls
  readOnly: true
{{- end }}
{{- if or .root.Values.caBundle.existingSecret .root.Values.caBundle.existingConfigMap }}
- name: ca
  mountPath: /etc/semblance/ca
  readOnly: true
{{- end }}
{{- end -}}

{{/* Probes of every service and agent. After a failure `kubectl describe` shows the last log lines. */}}
{{- define "semblance.probes" -}}
terminationMessagePolicy: FallbackToLogsOnError
livenessProbe:
  httpGet: { path: /healthz, port: health }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /readyz, port: health }
  periodSeconds: 5
  timeoutSeconds: 4
  failureThreshold: 2
{{- end -}}

{{/* Probes of a service. On a busy node it may take longer to start than it may later be silent. */}}
{{- define "semblance.serviceProbes" -}}
startupProbe:
  httpGet: { path: /healthz, port: health }
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 150
{{ include "semblance.probes" . }}
{{- end -}}

{{/* Annotations of a Pod: (dict "root" $ "extra" .Values.gateway.podAnnotations "checksums" (dict …)). */}}
{{- define "semblance.podAnnotations" -}}
{{- merge (deepCopy (.extra | default dict)) (deepCopy .root.Values.podAnnotations) (.checksums | default dict) | toYaml -}}
{{- end -}}
