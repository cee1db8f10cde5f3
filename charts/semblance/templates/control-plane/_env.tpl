{{- define "semblance.controlPlaneEnv" -}}
{{ include "semblance.baseEnv" . }}
{{ include "semblance.namespaceEnv" . }}
{{ include "semblance.objectsEnv" (dict "root" . "gateway" false) }}
- name: SEMBLANCE_POSTGRES_URL
  valueFrom:
    secretKeyRef: { name: {{ include "semblance.postgresSecret" . }}, key: {{ ternary .Values.postgres.existingSecretKey "url" (not (empty .Values.postgres.existingSecret)) }} }
- name: SEMBLANCE_NATS_URL
  valueFrom:
    secretKeyRef: { name: {{ include "semblance.natsSecret" . }}, key: {{ ternary .Values.nats.existingSecretKey "url" (not (empty .Values.nats.existingSecret)) }} }
- name: SEMBLANCE_CONTROL_LISTEN
  value: 0.0.0.0:9090
- name: SEMBLANCE_WEBHOOK_ALLOW
  value: {{ join "," .Values.controlPlane.webhookAllow | quote }}
- name: SEMBLANCE_WEBHOOK_DENY
  value: {{ include "semblance.webhookDeny" . | quote }}
{{- with .Values.controlPlane.oidc }}
{{- if .issuer }}
- name: SEMBLANCE_OIDC_ISSUER
  value: {{ .issuer | quote }}
- name: SEMBLANCE_OIDC_AUDIENCE
  value: {{ .audience | quote }}
- name: SEMBLANCE_OIDC_NAME_CLAIM
  value: {{ .nameClaim | quote }}
- name: SEMBLANCE_OIDC_ROLE_CLAIM
  value: {{ .roleClaim | quote }}
{{- $pairs := list }}
{{- range $role, $values := dict "owner" .roles.owner "support" .roles.support "read-only" .roles.readOnly }}
{{- range $values }}{{ $pairs = append $pairs (printf "%s=%s" $role .) }}{{ end }}
{{- end }}
- name: SEMBLANCE_OIDC_ROLES
  value: {{ join "," $pairs | quote }}
{{- end }}
{{- end }}
- name: SEMBLANCE_ADMIN_TOKEN
  valueFrom:
    secretKeyRef: { name: {{ include "semblance.internalSecret" . }}, key: admin-token }
{{- /* Used by the admin command, which runs in this Pod. */}}
- name: SEMBLANCE_CONTROL_ADDRESS
  value: 127.0.0.1:9090
{{- end -}}
