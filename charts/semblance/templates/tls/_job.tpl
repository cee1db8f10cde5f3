{{/* Spec of the Job that makes and renews the certificates. Where it renews, it waits five minutes for the services, and up to ten more for a run that died. */}}
{{- define "semblance.certificatesJob" -}}
{{- $env := printf "- { name: SEMBLANCE_FULLNAME, value: %s }\n- { name: SEMBLANCE_CERTIFICATE_DAYS, value: %q }\n- { name: SEMBLANCE_CERTIFICATE_RENEW_BEFORE_DAYS, value: %q }" (include "semblance.fullname" .) (toString .Values.tls.generated.days) (toString .Values.tls.generated.renewBeforeDays) -}}
{{ include "semblance.jobSpec" (dict "root" . "component" "certificates" "name" "certificates" "program" "operator/chart/renew-certificates.ts" "env" $env "seconds" 1800 "retries" 4) }}
{{- end -}}
