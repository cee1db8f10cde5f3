{{- define "semblance.operatorEnv" -}}
{{ include "semblance.baseEnv" . }}
{{ include "semblance.namespaceEnv" . }}
{{ include "semblance.objectsEnv" (dict "root" . "gateway" false) }}
- name: POD_IP
  valueFrom:
    fieldRef: { fieldPath: status.podIP }
- name: SEMBLANCE_OPERATOR_LISTEN
  value: 0.0.0.0:9091
- name: SEMBLANCE_OPERATOR_ADVERTISE
  value: $(POD_IP):9091
- name: SEMBLANCE_CONTROL_ADDRESS
  value: {{ include "semblance.controlAddress" . }}
- name: SEMBLANCE_OPERATOR_IDENTITY
  valueFrom:
    fieldRef: { fieldPath: metadata.name }
{{- end -}}
