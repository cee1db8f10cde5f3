{{/* Name of an admission policy, which belongs to no namespace: (dict "root" $ "part" "agents"). */}}
{{- define "semblance.admissionName" -}}
{{ .root.Release.Namespace }}-{{ include "semblance.fullname" .root }}-{{ .part }}
{{- end -}}

{{/* Restricts a policy to the namespace of the release. */}}
{{- define "semblance.admissionNamespace" -}}
namespaceSelector:
  matchLabels:
    kubernetes.io/metadata.name: {{ .Release.Namespace }}
{{- end -}}

{{/* Puts a policy into force: (dict "root" $ "part" "agents" "component" "agent"). */}}
{{- define "semblance.admissionBinding" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ include "semblance.admissionName" . }}
  labels:
    {{- include "semblance.labels" (dict "root" .root "component" .component) | nindent 4 }}
spec:
  policyName: {{ include "semblance.admissionName" . }}
  validationActions: [Deny]
{{- end -}}
