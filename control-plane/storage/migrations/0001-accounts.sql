-- Who may call, how often, and what the service owner sets for the whole platform.

create table accounts (
  id text primary key,
  name text not null,
  created_at timestamptz not null default now(),
  -- Work in flight and live sessions at once; null: the platform's setting.
  jobs_in_flight_limit int check (jobs_in_flight_limit >= 0),
  live_sessions_limit int check (live_sessions_limit >= 0)
);

create table api_keys (
  id text primary key,
  account_id text not null references accounts,
  -- Of the whole key as presented. The key itself is 256 random bits, so a plain hash of it cannot be guessed back.
  secret_sha256 bytea not null unique check (length(secret_sha256) = 32),
  per_minute int not null default 60 check (per_minute between 1 and 1000000),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
create index api_keys_by_account on api_keys (account_id, id);

-- The one fixed window of 60 s each key is in; it opens with the first call after the former one ended.
-- Unlogged: a count is worth nothing after a crash of the server, and a call must not wait for the disk.
-- Small and with a fast turnover: swept often, or its indexes grow.
create unlogged table rate_windows (
  key_id text primary key,
  opened_at timestamptz not null,
  used int not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- What the service owner may set for the whole platform. One row.
create table settings (
  only_row boolean primary key default true check (only_row),
  -- Jobs that are queued or processing, for an account that has no limit of its own and for all together.
  jobs_in_flight_per_account int not null default 100 check (jobs_in_flight_per_account >= 0),
  jobs_in_flight int not null default 1000 check (jobs_in_flight >= 0),
  live_sessions_per_account int not null default 10 check (live_sessions_per_account >= 0),
  live_sessions int not null default 100 check (live_sessions >= 0),
  -- Lifetime of signed links. S3 signatures live at most 7 days.
  link_seconds int not null default 86400 check (link_seconds between 60 and 604800),
  -- Time an upload may take from its reservation to its completion.
  upload_reservation_seconds int not null default 7200 check (upload_reservation_seconds >= 60),
  -- Time a used Idempotency-Key is remembered; the API promises a day.
  idempotency_seconds int not null default 172800 check (idempotency_seconds >= 86400),
  -- Longest time a job waits for an agent, each time it waits, and longest time one attempt may run.
  job_pending_seconds int not null default 21600 check (job_pending_seconds between 1 and 604800),
  job_active_seconds int not null default 3600 check (job_active_seconds between 1 and 86400),
  -- Time a finished RenderJob stays to be looked at. It carries the outcome, so it must outlast what keeps the control
  -- plane from settling: a job whose RenderJob is gone by then is cancelled.
  renderjob_ttl_seconds int not null default 86400 check (renderjob_ttl_seconds between 3600 and 31536000),
  -- How long files are kept; null: for ever.
  upload_retention_seconds int default 2592000 check (upload_retention_seconds >= 3600),
  output_retention_seconds int default 2592000 check (output_retention_seconds >= 3600),
  -- Objects that no row speaks of, from the moment they were stored.
  orphan_retention_seconds int default 86400 check (orphan_retention_seconds >= 86400),
  -- The shortest session that a balance may open when it does not cover the minutes asked for.
  session_shortest_seconds int not null default 5 check (session_shortest_seconds between 1 and 60),
  -- Time from the opening until somebody must have connected.
  session_connect_seconds int not null default 60 check (session_connect_seconds between 5 and 3600),
  -- How often a gateway tells how far its sessions are, and the silence after which one is settled as it stands.
  session_report_seconds int not null default 2 check (session_report_seconds between 1 and 60),
  session_report_timeout_seconds int not null default 15 check (session_report_timeout_seconds between 5 and 600),
  constraint session_reports_before_timeout check (session_report_timeout_seconds >= 3 * session_report_seconds)
);
insert into settings default values;

-- Names this database among those that may share an object store.
create table installation (only_row boolean primary key default true check (only_row), id uuid not null default gen_random_uuid());
insert into installation default values;
