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

{{/* Puts a policy into force: (dict "root" $ "part" "agents" "component" "agent"), and "action" "Warn" to refuse nothing. */}}
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
  validationActions: [{{ .action | default "Deny" }}]
{{- end -}}

{{/* Names of the Secrets of the release: those that it makes, and those that the values name. */}}
{{- define "semblance.ourSecrets" -}}
{{- $fullname := include "semblance.fullname" . -}}
{{- $names := list -}}
{{- range $part := list "internal" "postgres" "nats" "ca" "gateway-tls" "control-plane-tls" "operator-tls" "agent-tls" -}}
{{- $names = append $names (printf "%s-%s" $fullname $part) -}}
{{- end -}}
{{- range $setting, $each := include "semblance.existingSecrets" . | fromYaml -}}
{{- if ne $setting "caBundle.existingSecret" }}{{ $names = append $names $each.name }}{{ end -}}
{{- end -}}
{{- with .Values.test.existingSecret }}{{ $names = append $names . }}{{ end -}}
{{- $names | uniq | toYaml -}}
{{- end -}}
