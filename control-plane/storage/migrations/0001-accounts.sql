-- Accounts, their keys and rate limits, and the settings of the whole platform.

create table accounts (
  id text primary key,
  name text not null,
  created_at timestamptz not null default now(),
  -- Jobs in flight and live sessions at once; null: the platform's setting.
  jobs_in_flight_limit int check (jobs_in_flight_limit >= 0),
  live_sessions_limit int check (live_sessions_limit >= 0)
);

create table api_keys (
  id text primary key,
  account_id text not null references accounts,
  -- SHA-256 of the whole key as presented. A key is 256 random bits, so a plain hash cannot be reversed by guessing.
  secret_sha256 bytea not null unique check (length(secret_sha256) = 32),
  per_minute int not null default 60 check (per_minute between 1 and 1000000),
  created_at timestamptz not null default now(),
  revoked_at timestamptz
);
create index api_keys_by_account on api_keys (account_id, id);

-- The present fixed window of 60 s of each key. The first call after its end opens the next window.
-- The table is unlogged, because counts are worthless after a crash of the server and calls must not wait for the disk.
-- Its few rows change often, so it is vacuumed often; otherwise its indexes would grow.
create unlogged table rate_windows (
  key_id text primary key,
  opened_at timestamptz not null,
  used int not null
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Settings of the whole platform, in one row.
create table settings (
  only_row boolean primary key default true check (only_row),
  -- Most jobs that are queued or processing: for an account without its own limit, and for all accounts together.
  jobs_in_flight_per_account int not null default 100 check (jobs_in_flight_per_account >= 0),
  jobs_in_flight int not null default 1000 check (jobs_in_flight >= 0),
  live_sessions_per_account int not null default 10 check (live_sessions_per_account >= 0),
  live_sessions int not null default 100 check (live_sessions >= 0),
  -- Lifetime of signed links. S3 signatures are valid for at most 7 days.
  link_seconds int not null default 86400 check (link_seconds between 60 and 604800),
  -- Longest time of an upload from its reservation to its completion.
  upload_reservation_seconds int not null default 7200 check (upload_reservation_seconds >= 60),
  -- Time for which a used Idempotency-Key is remembered; the API promises a day.
  idempotency_seconds int not null default 172800 check (idempotency_seconds >= 86400),
  -- Longest time that a job waits for an agent, each time it waits, and longest time of one attempt.
  job_pending_seconds int not null default 21600 check (job_pending_seconds between 1 and 604800),
  job_active_seconds int not null default 3600 check (job_active_seconds between 1 and 86400),
  -- Time for which a finished RenderJob stays for inspection. It carries the outcome, so it must outlast any fault that
  -- keeps the control plane from settling: a job whose RenderJob is gone is cancelled.
  renderjob_ttl_seconds int not null default 86400 check (renderjob_ttl_seconds between 3600 and 31536000),
  -- Retention of files; null: for ever.
  upload_retention_seconds int default 2592000 check (upload_retention_seconds >= 3600),
  output_retention_seconds int default 2592000 check (output_retention_seconds >= 3600),
  -- Retention of objects without a row, from the moment they were stored.
  orphan_retention_seconds int default 86400 check (orphan_retention_seconds >= 86400),
  -- Shortest session that may be opened when the balance does not cover the requested minutes.
  session_shortest_seconds int not null default 5 check (session_shortest_seconds between 1 and 60),
  -- Time from the opening within which a client must connect.
  session_connect_seconds int not null default 60 check (session_connect_seconds between 5 and 3600),
  -- Interval at which a gateway reports its sessions, and the silence after which a session is settled as reported.
  session_report_seconds int not null default 2 check (session_report_seconds between 1 and 60),
  session_report_timeout_seconds int not null default 15 check (session_report_timeout_seconds between 5 and 600),
  constraint session_reports_before_timeout check (session_report_timeout_seconds >= 3 * session_report_seconds)
);
insert into settings default values;

-- Identifies this database among those that share an object store.
create table installation (only_row boolean primary key default true check (only_row), id uuid not null default gen_random_uuid());
insert into installation default values;
