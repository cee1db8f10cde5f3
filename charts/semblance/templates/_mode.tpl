{{/* Whether a part is external, "true", or installed by the chart for evaluation, empty. */}}
{{- define "semblance.externalPostgres" -}}{{ if .Values.postgres.existingSecret }}true{{ end }}{{- end -}}
{{- define "semblance.externalNats" -}}{{ if .Values.nats.existingSecret }}true{{ end }}{{- end -}}
{{- define "semblance.s3" -}}{{ if .Values.objects.s3.bucket }}true{{ end }}{{- end -}}
{{- define "semblance.external" -}}
{{- if and (include "semblance.externalPostgres" .) (include "semblance.externalNats" .) (include "semblance.s3" .) }}true{{ end -}}
{{- end -}}

{{/* Replicas of a service: (dict "root" $ "replicas" .Values.gateway.replicas). */}}
{{- define "semblance.replicas" -}}
{{- if kindIs "invalid" .replicas -}}
{{- ternary 2 1 (eq (include "semblance.external" .root) "true") -}}
{{- else -}}
{{- int .replicas -}}
{{- end -}}
{{- end -}}

{{/*
Whether a volume for evaluation is a claim: (dict "root" $ "component" "postgres"). The decision of the installation
stays, because a new or removed StorageClass must not lose data in an upgrade.
*/}}
{{- define "semblance.persistent" -}}
{{- $root := .root -}}
{{- $enabled := toString $root.Values.persistence.enabled -}}
{{- $name := printf "%s-%s" (include "semblance.fullname" $root) .component -}}
{{- if eq $enabled "true" -}}
true
{{- else if eq $enabled "auto" -}}
{{- if lookup "v1" "PersistentVolumeClaim" $root.Release.Namespace $name -}}
true
{{- else -}}
{{- $workload := lookup "apps/v1" (ternary "Deployment" "StatefulSet" (eq .component "objects")) $root.Release.Namespace (ternary (printf "%s-gateway" (include "semblance.fullname" $root)) $name (eq .component "objects")) -}}
{{- $found := dict "default" (ternary "true" "" (not (empty $root.Values.persistence.storageClass))) -}}
{{- if not $workload -}}
{{- range (lookup "storage.k8s.io/v1" "StorageClass" "" "").items -}}
{{- if eq (toString (index (.metadata.annotations | default dict) "storageclass.kubernetes.io/is-default-class")) "true" -}}
{{- $_ := set $found "default" "true" -}}
{{- end -}}
{{- end -}}
{{- $found.default -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Name of the claim of the gateway's volume, existing or from the chart; empty when the volume is no claim. */}}
{{- define "semblance.objectsClaim" -}}
{{- if .Values.objects.volume.existingClaim -}}
{{- .Values.objects.volume.existingClaim -}}
{{- else if include "semblance.persistent" (dict "root" . "component" "objects") -}}
{{- include "semblance.fullname" . }}-objects
{{- end -}}
{{- end -}}

{{/* Values of a pool, merged over the defaults of all pools: (dict "root" $ "pool" $pool). */}}
{{- define "semblance.pool" -}}
{{- mergeOverwrite (deepCopy .root.Values.agents) (deepCopy (.pool | default dict)) | toYaml -}}
{{- end -}}

{{/*
Owner of a CRD in the cluster that this release must not change: "namespace/release" of another release, or "none" when
no release created it. Empty when the CRD is absent or belongs to this release.
(dict "root" $ "name" "renderjobs.semblance.dev")
*/}}
{{- define "semblance.crdOwner" -}}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name -}}
{{- if $found -}}
{{- $annotations := $found.metadata.annotations | default dict -}}
{{- $owner := printf "%s/%s" (index $annotations "meta.helm.sh/release-namespace" | default "") (index $annotations "meta.helm.sh/release-name" | default "") -}}
{{- if eq $owner "/" -}}
none
{{- else if ne $owner (printf "%s/%s" .root.Release.Namespace .root.Release.Name) -}}
{{- $owner -}}
{{- end -}}
{{- end -}}
{{- end -}}
