{{/* A Job of the service image: (dict "root" $ "name" "pools" "hook" "post-install" "program" "operator/chart/….ts" "env" yaml "seconds" 60). */}}
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
  backoffLimit: {{ .retries }}
  activeDeadlineSeconds: {{ .seconds }}
  template:
    metadata:
      labels:
        {{- include "semblance.podLabels" $scope | nindent 8 }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      restartPolicy: Never
      serviceAccountName: {{ include "semblance.serviceAccount" $scope }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: 5
      securityContext:
        {{- include "semblance.podSecurityContext" $root | nindent 8 }}
      {{- include "semblance.pullSecrets" $root | nindent 6 }}
      {{- include "semblance.scheduling" (dict "root" $root "component" "hooks" "values" (omit $root.Values.operator "topologySpreadConstraints")) | nindent 6 }}
      containers:
        - name: {{ .name }}
          image: {{ include "semblance.image" (dict "root" $root "image" $root.Values.image) }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          command: [node, {{ .program }}]
          terminationMessagePolicy: FallbackToLogsOnError
          env:
            - { name: HOME, value: /tmp }
            - { name: SEMBLANCE_LOG_LEVEL, value: {{ $root.Values.logLevel }} }
            {{- include "semblance.namespaceEnv" $root | nindent 12 }}
            {{- .env | nindent 12 }}
          resources:
            requests: { cpu: 50m, memory: 96Mi }
            limits: { memory: 256Mi }
          securityContext:
            {{- include "semblance.containerSecurityContext" $root | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- with .mounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- with .volumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
