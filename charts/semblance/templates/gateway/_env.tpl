{{- define "semblance.gatewayEnv" -}}
{{ include "semblance.baseEnv" . }}
{{ include "semblance.objectsEnv" (dict "root" . "gateway" true) }}
- name: SEMBLANCE_GATEWAY_LISTEN
  value: 0.0.0.0:8080
- name: SEMBLANCE_CONTROL_ADDRESS
  value: {{ include "semblance.controlAddress" . }}
- name: SEMBLANCE_GATEWAY_DRAIN_SECONDS
  value: {{ .Values.gateway.drainSeconds | quote }}
- name: SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS
  value: {{ include "semblance.gatewayLiveDrain" . | quote }}
- name: SEMBLANCE_GATEWAY_KEYLESS_PER_MINUTE
  value: {{ .Values.gateway.keylessPerMinute | int | quote }}
- name: SEMBLANCE_GATEWAY_TRUSTED_PROXIES
  value: {{ include "semblance.trustedProxies" . | quote }}
- name: SEMBLANCE_GATEWAY_OUTPUT_RESERVE_MB
  value: {{ .Values.gateway.outputReserveMb | int | quote }}
- name: SEMBLANCE_CONSOLE
  value: {{ ternary "on" "off" .Values.gateway.console | quote }}
- name: SEMBLANCE_TRY_PAGE
  value: {{ ternary "on" "off" .Values.gateway.tryPage | quote }}
{{- end -}}

{{- define "semblance.trustedProxies" -}}
{{- $stated := .Values.gateway.trustedProxies -}}
{{- if not (kindIs "invalid" $stated) -}}
{{ int $stated }}
{{- else -}}
{{ ternary 1 0 (or .Values.ingress.enabled .Values.httpRoute.enabled) }}
{{- end -}}
{{- end -}}

{{/* Whether several gateways can run at once. They cannot on a volume that only one Pod may use at a time. */}}
{{- define "semblance.gatewayRolls" -}}
{{- if or (include "semblance.s3" .) (and (include "semblance.objectsClaim" .) (eq .Values.objects.volume.accessMode "ReadWriteMany")) }}true{{ end -}}
{{- end -}}

{{/* Seconds that live sessions have to end when their gateway ends. */}}
{{- define "semblance.gatewayLiveDrain" -}}
{{- $values := .Values.gateway -}}
{{- if not (kindIs "invalid" $values.liveDrainSeconds) -}}
{{ int $values.liveDrainSeconds }}
{{- else if include "semblance.gatewayRolls" . -}}
300
{{- else -}}
{{ min $values.drainSeconds 30 }}
{{- end -}}
{{- end -}}
