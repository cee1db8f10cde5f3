{{/*
Secrets that the chart generates, as YAML: those that the cluster already has, else new ones. They are computed once for
each rendering, so that a Secret and its checksum agree.
*/}}
{{- define "semblance.generated" -}}
{{- if not (hasKey .Values "_generated") -}}
{{- $namespace := .Release.Namespace -}}
{{- $fullname := include "semblance.fullname" . -}}
{{- $made := dict -}}

{{- $old := (lookup "v1" "Secret" $namespace (printf "%s-internal" $fullname)).data | default dict -}}
{{- $internal := dict
  "internal-token" (index $old "internal-token" | default (randAlphaNum 40 | b64enc))
  "admin-token" (index $old "admin-token" | default (randAlphaNum 40 | b64enc))
  "objects-signing-key" (index $old "objects-signing-key" | default (randAlphaNum 40 | sha256sum | b64enc)) -}}
{{- $_ := set $made "internal" $internal -}}

{{- $old = (lookup "v1" "Secret" $namespace (printf "%s-postgres" $fullname)).data | default dict -}}
{{- $password := index $old "password" | default (randAlphaNum 32 | b64enc) -}}
{{- $url := printf "postgres://semblance:%s@%s-postgres.%s.svc:5432/semblance" (b64dec $password) $fullname $namespace -}}
{{- $_ := set $made "postgres" (dict "password" $password "url" (b64enc $url)) -}}

{{- $old = (lookup "v1" "Secret" $namespace (printf "%s-nats" $fullname)).data | default dict -}}
{{- $password = index $old "password" | default (randAlphaNum 32 | b64enc) -}}
{{- $url = printf "nats://semblance:%s@%s-nats.%s.svc:4222" (b64dec $password) $fullname $namespace -}}
{{- $_ := set $made "nats" (dict "password" $password "url" (b64enc $url) "nats.conf" (include "semblance.natsConf" (b64dec $password) | b64enc)) -}}
{{- $_ := set .Values "_generated" $made -}}
{{- end -}}
{{- toYaml .Values._generated -}}
{{- end -}}

{{- define "semblance.natsConf" -}}
port: 4222
http_port: 8222
server_name: semblance
jetstream {
  store_dir: /data
  max_memory_store: 64MB
}
authorization {
  user: semblance
  password: {{ . | quote }}
}
{{ end -}}

{{/* Existing Secrets, as YAML: the name and the required keys, by the value that names the Secret. */}}
{{- define "semblance.existingSecrets" -}}
{{- $all := dict -}}
{{- with .Values.secrets.existingSecret -}}
{{- $keys := list "internal-token" "admin-token" -}}
{{- if not (include "semblance.s3" $) }}{{ $keys = append $keys "objects-signing-key" }}{{ end -}}
{{- $_ := set $all "secrets.existingSecret" (dict "name" . "keys" $keys) -}}
{{- end -}}
{{- range $name := list "postgres" "nats" -}}
{{- $given := index $.Values $name -}}
{{- with $given.existingSecret -}}
{{- $_ := set $all (printf "%s.existingSecret" $name) (dict "name" . "keys" (list $given.existingSecretKey)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.objects.s3.existingSecret -}}
{{- $_ := set $all "objects.s3.existingSecret" (dict "name" . "keys" (list "access-key-id" "secret-access-key")) -}}
{{- end -}}
{{- with .Values.caBundle.existingSecret -}}
{{- $_ := set $all "caBundle.existingSecret" (dict "name" . "keys" (list $.Values.caBundle.key)) -}}
{{- end -}}
{{- toYaml $all -}}
{{- end -}}

{{/*
Checksum of the existing Secrets in the cluster. A change restarts the Pods, which read the Secrets only at their start.
*/}}
{{- define "semblance.existingSecretsChecksum" -}}
{{- $held := dict -}}
{{- range $setting, $keys := include "semblance.existingSecrets" . | fromYaml -}}
{{- $_ := set $held $setting ((lookup "v1" "Secret" $.Release.Namespace $keys.name).data | default dict) -}}
{{- end -}}
{{- $held | toJson | sha256sum -}}
{{- end -}}

{{/* Checksum of the generated Secrets. A change restarts the Pods that read them. */}}
{{- define "semblance.secretsChecksum" -}}
{{- $made := include "semblance.generated" . | fromYaml -}}
{{- $used := dict -}}
{{- /* Only stored Secrets count, because the others differ at every rendering. */ -}}
{{- if not .Values.secrets.existingSecret }}{{ $_ := set $used "internal" $made.internal }}{{ end -}}
{{- if not .Values.postgres.existingSecret }}{{ $_ := set $used "postgres" $made.postgres }}{{ end -}}
{{- if not .Values.nats.existingSecret }}{{ $_ := set $used "nats" $made.nats }}{{ end -}}
{{- $used | toJson | sha256sum -}}
{{- end -}}

{{- define "semblance.internalSecret" -}}
{{- .Values.secrets.existingSecret | default (printf "%s-internal" (include "semblance.fullname" .)) -}}
{{- end -}}
{{- define "semblance.postgresSecret" -}}
{{- .Values.postgres.existingSecret | default (printf "%s-postgres" (include "semblance.fullname" .)) -}}
{{- end -}}
{{- define "semblance.natsSecret" -}}
{{- .Values.nats.existingSecret | default (printf "%s-nats" (include "semblance.fullname" .)) -}}
{{- end -}}

{{/* Keeps an object after the release is uninstalled, if the data that it opens is kept. */}}
{{- define "semblance.keep" -}}
{{- if .Values.persistence.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}
{{- end -}}
