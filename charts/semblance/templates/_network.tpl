{{/* Egress and ingress rules, each a list with one entry. */}}
{{- define "semblance.toDns" -}}
- ports:
    {{- range .Values.networkPolicy.dns.ports }}
    - { port: {{ int . }}, protocol: UDP }
    - { port: {{ int . }}, protocol: TCP }
    {{- end }}
  {{- with .Values.networkPolicy.dns.to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}

{{/* Egress to a component: (dict "root" $ "component" "gateway" "port" 8080). */}}
{{- define "semblance.toComponent" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "semblance.selectorLabels" . | nindent 10 }}
  ports:
    - { port: {{ .port }}, protocol: TCP }
{{- end -}}

{{/* Ingress from components: (dict "root" $ "from" (list "gateway") "port" 9090). */}}
{{- define "semblance.fromComponents" -}}
- from:
    {{- range .from }}
    - podSelector:
        matchLabels:
          {{- include "semblance.selectorLabels" (dict "root" $.root "component" .) | nindent 10 }}
    {{- end }}
  ports:
    - { port: {{ .port }}, protocol: TCP }
{{- end -}}

{{/* Ingress of who may read metrics; empty without one. The node itself, which asks for health, is always let in. */}}
{{- define "semblance.fromMetrics" -}}
{{- with .Values.networkPolicy.metricsFrom -}}
- from:
    {{- toYaml . | nindent 4 }}
  ports:
    - { port: 8081, protocol: TCP }
{{- end -}}
{{- end -}}

{{/*
Egress to the Kubernetes API: the addresses in the values, else those that the cluster reports. Rendered without a
cluster: any address.
*/}}
{{- define "semblance.toKubeApi" -}}
{{- $cidrs := .Values.networkPolicy.kubeApi.cidrs -}}
{{- $ports := .Values.networkPolicy.kubeApi.ports -}}
{{- if not $cidrs -}}
{{- range (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "").items -}}
{{- if eq (index .metadata.labels "kubernetes.io/service-name" | default "") "kubernetes" -}}
{{- range .endpoints }}{{ range .addresses }}{{ $cidrs = append $cidrs (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) }}{{ end }}{{ end -}}
{{- range .ports }}{{ $ports = append $ports (int .port) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $service := lookup "v1" "Service" "default" "kubernetes" -}}
{{- if and $cidrs $service -}}
{{- range $service.spec.clusterIPs }}{{ $cidrs = append $cidrs (printf "%s/%s" . (ternary "128" "32" (contains ":" .))) }}{{ end -}}
{{- end -}}
{{- end -}}
- ports:
    {{- range $ports | uniq }}
    - { port: {{ int . }}, protocol: TCP }
    {{- end }}
  {{- with $cidrs | uniq }}
  to:
    {{- range . }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Egress to external PostgreSQL, NATS, S3 and trace collector. */}}
{{- define "semblance.toExternal" -}}
{{- $ports := list -}}
{{- range .Values.networkPolicy.external.ports }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- range list .Values.objects.s3.endpoint .Values.objects.s3.publicEndpoint -}}
{{- if . -}}
{{- $url := urlParse . -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- $ports = append $ports (ternary $port (ternary "443" "80" (eq $url.scheme "https")) (ne $port "") | int) -}}
{{- end -}}
{{- end -}}
- ports:
    {{- range $ports | uniq }}
    - { port: {{ . }}, protocol: TCP }
    {{- end }}
  {{- with .Values.networkPolicy.external.cidrs }}
  to:
    {{- range . }}
    - ipBlock: { cidr: {{ . | quote }} }
    {{- end }}
  {{- end }}
{{- end -}}

{{/* Egress to the object store. Agents fetch and store by links, at the gateway or at S3. */}}
{{- define "semblance.toObjects" -}}
{{ include "semblance.toComponent" (dict "root" . "component" "gateway" "port" 8080) }}
{{- if include "semblance.s3" . }}
{{ include "semblance.toExternal" . }}
{{- end }}
{{- end -}}

{{/* Head of a NetworkPolicy: (dict "root" $ "component" "gateway"). */}}
{{- define "semblance.policyHead" -}}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata:
  name: {{ include "semblance.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "semblance.labels" . | nindent 4 }}
spec:
  podSelector:
    matchLabels:
      {{- include "semblance.selectorLabels" . | nindent 6 }}
  policyTypes: [Ingress, Egress]
{{- end -}}

{{/*
Ranges to which no webhook goes: those of the values, and of the cluster's Services and Pods as far as the cluster reports
them. They are read by whoever may grant the right to read Nodes, since to read without the right ends the rendering.
*/}}
{{- define "semblance.webhookDeny" -}}
{{- $cidrs := .Values.controlPlane.webhookDeny | default list -}}
{{- if .Values.operator.clusterRole -}}
{{- if .Capabilities.APIVersions.Has "networking.k8s.io/v1/ServiceCIDR" -}}
{{- range (lookup "networking.k8s.io/v1" "ServiceCIDR" "" "").items -}}
{{- $cidrs = concat $cidrs .spec.cidrs -}}
{{- end -}}
{{- end -}}
{{- range (lookup "v1" "Node" "" "").items -}}
{{- $cidrs = concat $cidrs (.spec.podCIDRs | default list) -}}
{{- end -}}
{{- end -}}
{{- join "," ($cidrs | uniq | sortAlpha) -}}
{{- end -}}
