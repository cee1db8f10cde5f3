{{- define "semblance.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Prefix of names: at most 40 characters, so that every name made with it has at most 63. */}}
{{- define "semblance.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "semblance.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "semblance.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/*
Labels that select the Pods of a component: (dict "root" $ "component" "gateway"). They must never change, because
selectors are immutable.
*/}}
{{- define "semblance.selectorLabels" -}}
app.kubernetes.io/name: {{ include "semblance.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{/* Labels of an object. */}}
{{- define "semblance.labels" -}}
{{ include "semblance.selectorLabels" . }}
app.kubernetes.io/part-of: semblance
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of a Pod. They contain no versions, so that an upgrade that changes nothing else restarts nothing. */}}
{{- define "semblance.podLabels" -}}
{{- $fixed := include "semblance.selectorLabels" . | fromYaml -}}
{{- $part := dict "app.kubernetes.io/part-of" "semblance" -}}
{{- merge $fixed $part (.extra | default dict) (deepCopy .root.Values.podLabels) (deepCopy .root.Values.commonLabels) | toYaml -}}
{{- end -}}

{{/* Name of an image, with its digest or else its tag: (dict "root" $ "image" .Values.image). */}}
{{- define "semblance.image" -}}
{{- $registry := .root.Values.global.imageRegistry | default .image.registry -}}
{{- $name := .image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" $registry .image.repository }}{{ end -}}
{{- if .image.digest -}}
{{- printf "%s@%s" $name .image.digest -}}
{{- else -}}
{{- printf "%s:%s" $name (.image.tag | default .root.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "semblance.serviceAccount" -}}
{{ include "semblance.fullname" .root }}-{{ .component }}
{{- end -}}

{{/* Addresses inside the cluster. */}}
{{- define "semblance.gatewayOrigin" -}}
http://{{ include "semblance.fullname" . }}-gateway.{{ .Release.Namespace }}.svc:{{ .Values.gateway.service.port }}
{{- end -}}
{{- define "semblance.controlAddress" -}}
{{ include "semblance.fullname" . }}-control-plane.{{ .Release.Namespace }}.svc:9090
{{- end -}}

{{/* Public origin of the gateway; empty when no value tells it. A host with a wildcard is no address. */}}
{{- define "semblance.publicUrlFound" -}}
{{- $hostnames := list -}}
{{- range .Values.httpRoute.hostnames }}{{ if not (hasPrefix "*" .) }}{{ $hostnames = append $hostnames . }}{{ end }}{{ end -}}
{{- if .Values.publicUrl -}}
{{- .Values.publicUrl -}}
{{- else if and .Values.ingress.enabled .Values.ingress.host (not (hasPrefix "*" .Values.ingress.host)) -}}
{{- printf "%s://%s" (ternary "https" "http" (not (empty .Values.ingress.tlsSecret))) .Values.ingress.host -}}
{{- else if and .Values.httpRoute.enabled $hostnames -}}
{{- printf "https://%s" (first $hostnames) -}}
{{- end -}}
{{- end -}}

{{- define "semblance.publicUrl" -}}
{{ include "semblance.publicUrlFound" . | default "http://localhost:8080" }}
{{- end -}}

{{/* Name of the Secret with a component's certificate: (dict "root" $ "component" "gateway"). */}}
{{- define "semblance.tlsSecret" -}}
{{ include "semblance.fullname" .root }}-{{ .component }}-{{ ternary "certificate" "tls" (eq .root.Values.tls.mode "generated") }}
{{- end -}}
