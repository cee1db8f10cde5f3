{{- define "semblance.agentEnv" -}}
{{- $pool := .values -}}
{{ include "semblance.baseEnv" .root }}
{{ include "semblance.namespaceEnv" .root }}
- name: POD_IP
  valueFrom:
    fieldRef: { fieldPath: status.podIP }
- name: SEMBLANCE_AGENT_LISTEN
  value: 0.0.0.0:9092
- name: SEMBLANCE_AGENT_ADVERTISE
  value: $(POD_IP):9092
- name: SEMBLANCE_AGENT_NAME
  valueFrom:
    fieldRef: { fieldPath: metadata.name }
- name: SEMBLANCE_POD_NAME
  valueFrom:
    fieldRef: { fieldPath: metadata.name }
- name: SEMBLANCE_POD_UID
  valueFrom:
    fieldRef: { fieldPath: metadata.uid }
- name: SEMBLANCE_AGENT_NODE
  valueFrom:
    fieldRef: { fieldPath: spec.nodeName }
- name: SEMBLANCE_AGENT_DRAIN_SECONDS
  value: {{ sub $pool.terminationGracePeriodSeconds 20 | quote }}
- name: SEMBLANCE_AGENT_ENGINES
  value: {{ join "," $pool.engines }}
- name: SEMBLANCE_AGENT_WORK_DIR
  value: /work/agent
- name: SEMBLANCE_MEDIA_ISOLATION
  value: {{ $pool.mediaIsolation }}
{{- if not (kindIs "invalid" $pool.slots) }}
- name: SEMBLANCE_AGENT_SLOTS
  value: {{ $pool.slots | int | quote }}
{{- end }}
{{- if not (kindIs "invalid" $pool.live.voiceSlots) }}
- name: SEMBLANCE_LIVE_VOICE_SLOTS
  value: {{ $pool.live.voiceSlots | int | quote }}
{{- end }}
{{- if not (kindIs "invalid" $pool.live.videoSlots) }}
- name: SEMBLANCE_LIVE_VIDEO_SLOTS
  value: {{ $pool.live.videoSlots | int | quote }}
{{- end }}
{{- if not (kindIs "invalid" $pool.live.voiceContextMs) }}
- name: SEMBLANCE_LIVE_VOICE_CONTEXT_MS
  value: {{ $pool.live.voiceContextMs | int | quote }}
{{- end }}
{{- with $pool.live.videoStages }}
- name: SEMBLANCE_LIVE_VIDEO_STAGES
  value: {{ join "," . | quote }}
{{- end }}
{{- with $pool.live.voiceSidecar }}
- name: SEMBLANCE_LIVE_VOICE_SIDECAR
  value: {{ . }}
{{- end }}
{{- with $pool.live.videoSidecar }}
- name: SEMBLANCE_LIVE_VIDEO_SIDECAR
  value: {{ . }}
{{- end }}
{{- if not (kindIs "invalid" $pool.swapLikeness) }}
- name: SEMBLANCE_SWAP_LIKENESS
  value: {{ $pool.swapLikeness | quote }}
{{- end }}
{{- with $pool.engineOptions }}
- name: SEMBLANCE_ENGINE_OPTIONS
  value: {{ toJson . | quote }}
{{- end }}
{{- with $pool.onnxProviders }}
- name: SEMBLANCE_ONNX_PROVIDERS
  value: {{ join "," . }}
{{- end }}
{{- if not (kindIs "invalid" $pool.onnxVramCeilingMib) }}
- name: SEMBLANCE_ONNX_VRAM_CEILING_MIB
  value: {{ $pool.onnxVramCeilingMib | int | quote }}
{{- end }}
{{- if $pool.models.existingClaim }}
- name: SEMBLANCE_MODEL_DIR
  value: {{ $pool.models.mountPath }}
{{- end }}
{{- with $pool.sidecarSockets }}
- name: SEMBLANCE_SIDECAR_SOCKETS
  value: {{ join "," . }}
{{- end }}
{{- end -}}

{{/* An AgentPool: (dict "root" $ "name" "agents" "values" <values of the pool, merged over the defaults>). */}}
{{- define "semblance.agentPool" -}}
{{- $root := .root -}}
{{- $pool := .values -}}
{{- $scope := dict "root" $root "component" "agent" "extra" $pool.podLabels -}}
{{- $claims := $pool.resourceClaims -}}
{{- $resources := deepCopy $pool.resources -}}
{{- if gt (int $pool.gpu.count) 0 -}}
{{- $gpus := dict $pool.gpu.resourceName (toString (int $pool.gpu.count)) -}}
{{- $resources = mergeOverwrite $resources (dict "limits" $gpus "requests" $gpus) -}}
{{- end -}}
{{- if $claims -}}
{{- $names := list -}}
{{- range $claims }}{{ $names = append $names (dict "name" .name) }}{{ end -}}
{{- $_ := set $resources "claims" $names -}}
{{- end -}}
apiVersion: semblance.dev/v1alpha1
kind: AgentPool
metadata:
  name: {{ .name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "semblance.labels" (dict "root" $root "component" "agent") | nindent 4 }}
spec:
  {{- if $pool.autoscaling.enabled }}
  autoscaling:
    {{- omit $pool.autoscaling "enabled" | toYaml | nindent 4 }}
  {{- else if not (kindIs "invalid" $pool.replicas) }}
  replicas: {{ int $pool.replicas }}
  {{- end }}
  {{- with $pool.capabilities }}
  capabilities:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  strategy:
    {{- toYaml $pool.strategy | nindent 4 }}
  {{- with $pool.models.sets }}
  modelSets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  warmUpSeconds: {{ int $pool.warmUpSeconds }}
  drainSeconds: {{ int $pool.drainSeconds }}
  template:
    metadata:
      labels:
        {{- include "semblance.podLabels" $scope | nindent 8 }}
      annotations:
        {{- include "semblance.podAnnotations" (dict "root" $root "extra" $pool.podAnnotations "checksums" (dict "checksum/secrets" (include "semblance.secretsChecksum" $root))) | nindent 8 }}
    spec:
      serviceAccountName: {{ include "semblance.serviceAccount" (dict "root" $root "component" "agent") }}
      automountServiceAccountToken: true
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ int $pool.terminationGracePeriodSeconds }}
      securityContext:
        {{- include "semblance.podSecurityContext" $root | nindent 8 }}
      {{- include "semblance.pullSecrets" $root | nindent 6 }}
      {{- with $pool.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $claims }}
      resourceClaims:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- include "semblance.scheduling" (dict "root" $root "component" "agent" "values" $pool "many" true "poolName" .name) | nindent 6 }}
      containers:
        - name: agent
          image: {{ include "semblance.image" (dict "root" $root "image" $root.Values.agentImage) }}
          imagePullPolicy: {{ $root.Values.agentImage.pullPolicy }}
          # Same flags as in gpu-agent/node-flags.ts.
          command: [node, --no-maglev, --initial-old-space-size=128, gpu-agent/main.ts]
          env:
            {{- include "semblance.env" (dict "root" $root "base" (include "semblance.agentEnv" .) "extra" $pool.extraEnv) | nindent 12 }}
          ports:
            - { name: grpc, containerPort: 9092, protocol: TCP }
            - { name: health, containerPort: 8081, protocol: TCP }
          # The agent may take warmUpSeconds, because engines load and warm up first.
          startupProbe:
            httpGet: { path: /healthz, port: health }
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: {{ div (add (int $pool.warmUpSeconds) 1) 2 }}
          {{- include "semblance.probes" $root | nindent 10 }}
          resources:
            {{- toYaml $resources | nindent 12 }}
          securityContext:
            {{- include "semblance.containerSecurityContext" $root | nindent 12 }}
          volumeMounts:
            {{- include "semblance.baseMounts" $scope | nindent 12 }}
            - name: work
              mountPath: /work
            {{- if $pool.models.existingClaim }}
            - name: models
              mountPath: {{ $pool.models.mountPath }}
              readOnly: true
            {{- end }}
            {{- if $pool.sidecars }}
            - name: sockets
              mountPath: /run/semblance
            {{- end }}
            {{- if or $pool.live.voiceSidecar $pool.live.videoSidecar }}
            - name: live
              mountPath: /run/semblance-live
            {{- end }}
            {{- with $pool.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- range $pool.sidecars }}
        - {{ merge (deepCopy .) (dict "securityContext" (include "semblance.containerSecurityContext" $root | fromYaml)) | toYaml | nindent 10 | trim }}
        {{- end }}
      volumes:
        {{- include "semblance.baseVolumes" $scope | nindent 8 }}
        - name: work
          emptyDir:
            sizeLimit: {{ $pool.workSizeLimit }}
        {{- if $pool.models.existingClaim }}
        - name: models
          persistentVolumeClaim:
            claimName: {{ $pool.models.existingClaim }}
            # The sets are fetched into it; the agent mounts it read-only all the same.
            readOnly: {{ not $pool.models.sets }}
        {{- end }}
        {{- if $pool.sidecars }}
        - name: sockets
          emptyDir: {}
        {{- end }}
        {{- if or $pool.live.voiceSidecar $pool.live.videoSidecar }}
        - name: live
          emptyDir:
            medium: Memory
        {{- end }}
        {{- with $pool.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end -}}
