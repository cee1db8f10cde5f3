{{/* A volume claim for evaluation: (dict "root" $ "component" "postgres" "size" "4Gi"). */}}
{{- define "semblance.claim" -}}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ include "semblance.fullname" .root }}-{{ .component }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "semblance.labels" . | nindent 4 }}
  {{- include "semblance.keep" .root | indent 2 }}
spec:
  accessModes: [ReadWriteOnce]
  {{- with .root.Values.persistence.storageClass }}
  storageClassName: {{ . }}
  {{- end }}
  resources:
    requests:
      storage: {{ .size }}
{{- end -}}

{{- define "semblance.postgresConfig" -}}
passwd: |
  root:x:0:0:root:/root:/sbin/nologin
  semblance:x:65532:65532:semblance:/tmp:/sbin/nologin
start.sh: |
  set -eu
  for folder in /usr/lib/postgresql/*/bin /usr/local/pgsql/bin; do
    if [ -x "$folder/postgres" ]; then PATH="$PATH:$folder"; fi
  done
  if [ ! -e "$PGDATA/PG_VERSION" ]; then
    # The database is created aside and moved when complete, so that an interrupted start leaves no partial database.
    rm -rf "$PGDATA.unfinished" "$PGDATA"
    initdb --pgdata="$PGDATA.unfinished" --username=semblance --pwfile=/etc/semblance-password/password \
      --auth=scram-sha-256 --encoding=UTF8 --locale=C
    echo 'host all all all scram-sha-256' >> "$PGDATA.unfinished/pg_hba.conf"
    echo 'create database semblance' | postgres --single -D "$PGDATA.unfinished" postgres
    mv "$PGDATA.unfinished" "$PGDATA"
  fi
  # SIGINT ends sessions and writes a checkpoint; SIGTERM would wait for clients to leave.
  trap 'kill -INT "$server"' TERM INT
  postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/tmp -c shared_buffers=64MB \
    -c dynamic_shared_memory_type=mmap -c max_connections=200 &
  server=$!
  # A trapped signal interrupts the first wait.
  wait "$server" || wait "$server"
{{- end -}}
