{{/* Rules of each component's Role, as a list. */}}
{{- define "semblance.rules.control-plane" -}}
- apiGroups: [semblance.dev]
  resources: [renderjobs, livesessions]
  verbs: [get, list, watch, create, update, patch, delete]
{{- /* It acts for accounts. templates/admission/jobs.yaml asks for both. */}}
- apiGroups: [semblance.dev]
  resources: [renderjobs]
  verbs: [prioritise, useuploads]
- apiGroups: [semblance.dev]
  resources: [renderjobs/status, livesessions/status, gpuagents, agentpools]
  verbs: [get, list, watch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch]
{{- /* It compares the address that an agent states with that of its Pod. */}}
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- end -}}

{{- define "semblance.rules.operator" -}}
- apiGroups: [semblance.dev]
  resources: [renderjobs, livesessions, gpuagents, agentpools]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [semblance.dev]
  resources: [renderjobs/status, livesessions/status, gpuagents/status, agentpools/status]
  verbs: [get, update, patch]
- apiGroups: [semblance.dev]
  resources: [renderjobs/finalizers, livesessions/finalizers, gpuagents/finalizers, agentpools/finalizers]
  verbs: [update]
{{- /* It removes the Leases of dead agents, and renews only the one for which operators compete. */}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, watch, create, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [semblance-operator]
  verbs: [update]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, patch]
{{- /* It reads its own namespace to see whether that is being deleted. */}}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{{ .Release.Namespace }}]
  verbs: [get]
{{- end -}}

{{/* templates/admission/agents.yaml narrows what an agent writes to its own. */}}
{{- define "semblance.rules.agent" -}}
- apiGroups: [semblance.dev]
  resources: [gpuagents]
  verbs: [get, list, watch, create, patch]
- apiGroups: [semblance.dev]
  resources: [gpuagents/status]
  verbs: [get, patch]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get]
{{- /* It reads its own namespace to see whether that is being deleted. */}}
- apiGroups: [""]
  resources: [namespaces]
  resourceNames: [{{ .Release.Namespace }}]
  verbs: [get]
{{- end -}}

{{/* The Jobs that apply the pools, and that clean up before the release is uninstalled. */}}
{{- define "semblance.rules.hooks" -}}
- apiGroups: [semblance.dev]
  resources: [renderjobs, livesessions, gpuagents, agentpools]
  verbs: [get, list, patch, delete]
- apiGroups: [semblance.dev]
  resources: [agentpools]
  verbs: [create]
- apiGroups: [apps]
  resources: [deployments]
  resourceNames: [{{ include "semblance.fullname" . }}-gateway, {{ include "semblance.fullname" . }}-control-plane, {{ include "semblance.fullname" . }}-operator]
  verbs: [get, patch]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, list, delete]
{{- end -}}
