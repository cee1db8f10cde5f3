{{/*
Spec of a Job of the service image: (dict "root" $ "component" "hooks" "name" "pools" "program" "operator/chart/….ts" "env" yaml "seconds" 60 "retries" 2).
*/}}
{{- define "semblance.jobSpec" -}}
{{- $root := .root -}}
{{- $scope := dict "root" $root "component" .component -}}
backoffLimit: {{ .retries }}
activeDeadlineSeconds: {{ .seconds }}
template:
  metadata:
    labels:
      {{- include "semblance.podLabels" $scope | nindent 6 }}
    {{- with $root.Values.podAnnotations }}
    annotations:
      {{- toYaml . | nindent 6 }}
    {{- end }}
  spec:
    restartPolicy: Never
    serviceAccountName: {{ include "semblance.serviceAccount" $scope }}
    automountServiceAccountToken: true
    enableServiceLinks: false
    terminationGracePeriodSeconds: 5
    securityContext:
      {{- include "semblance.podSecurityContext" $root | nindent 6 }}
    {{- include "semblance.pullSecrets" $root | nindent 4 }}
    {{- include "semblance.scheduling" (dict "root" $root "component" $scope.component "values" (omit $root.Values.operator "topologySpreadConstraints")) | nindent 4 }}
    containers:
      - name: {{ .name }}
        image: {{ include "semblance.image" (dict "root" $root "image" $root.Values.image) }}
        imagePullPolicy: {{ $root.Values.image.pullPolicy }}
        command: [node, {{ .program }}]
        terminationMessagePolicy: FallbackToLogsOnError
        env:
          - { name: HOME, value: /tmp }
          - { name: SEMBLANCE_LOG_LEVEL, value: {{ $root.Values.logLevel }} }
          {{- include "semblance.namespaceEnv" $root | nindent 10 }}
          {{- .env | nindent 10 }}
        resources:
          requests: { cpu: 50m, memory: 96Mi }
          limits: { memory: 256Mi }
        securityContext:
          {{- include "semblance.containerSecurityContext" $root | nindent 10 }}
        volumeMounts:
          - name: tmp
            mountPath: /tmp
          {{- with .mounts }}
          {{- toYaml . | nindent 10 }}
          {{- end }}
    volumes:
      - name: tmp
        emptyDir: {}
      {{- with .volumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end -}}

{{/* A hook that is such a Job: the same, and "hook" "post-install". */}}
{{- define "semblance.hookJob" -}}
{{- $root := .root -}}
{{- $scope := dict "root" $root "component" "hooks" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ include "semblance.fullname" $root }}-{{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "semblance.labels" $scope | nindent 4 }}
  annotations:
    helm.sh/hook: {{ .hook }}
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
spec:
  {{- include "semblance.jobSpec" (merge (dict "component" "hooks") .) | nindent 2 }}
{{- end -}}
