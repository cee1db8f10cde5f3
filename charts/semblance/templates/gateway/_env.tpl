{{- define "semblance.gatewayEnv" -}}
{{ include "semblance.baseEnv" . }}
{{ include "semblance.objectsEnv" (dict "root" . "gateway" true) }}
- name: SEMBLANCE_GATEWAY_LISTEN
  value: 0.0.0.0:8080
- name: SEMBLANCE_CONTROL_ADDRESS
  value: {{ include "semblance.controlAddress" . }}
- name: SEMBLANCE_GATEWAY_DRAIN_SECONDS
  value: {{ .Values.gateway.drainSeconds | quote }}
- name: SEMBLANCE_TRY_PAGE
  value: {{ ternary "on" "off" .Values.gateway.tryPage | quote }}
{{- end -}}
