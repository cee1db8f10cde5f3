-- Who changed what; what becomes of files; and what is done now and then by whichever process comes first.

-- One row for each change that the service owner makes, written in the transaction that makes it.
create table audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  -- As stated by the caller, not proven: whoever holds the admin token may state any name.
  actor text not null,
  -- Name of the method of the admin service.
  action text not null,
  account_id text,
  -- What was changed: the id of a key, the name of a capability.
  subject text not null,
  -- What changed, as it was and as it is; never a secret.
  before jsonb,
  after jsonb,
  request_id text
);
create index audit_by_account on audit (account_id, id desc) where account_id is not null;
create index audit_by_time on audit (at);
create trigger audit_no_change before update or delete on audit for each row execute function table_is_append_only();
create trigger audit_no_truncate before truncate on audit for each statement execute function table_is_append_only();

-- How long files are kept; null: for ever.
alter table settings
  add column upload_retention_seconds int default 2592000 check (upload_retention_seconds >= 3600),
  add column output_retention_seconds int default 2592000 check (output_retention_seconds >= 3600),
  -- Objects that no row speaks of, from the moment they were stored.
  add column orphan_retention_seconds int default 86400 check (orphan_retention_seconds >= 86400);

create index uploads_by_age on uploads (completed_at) where completed_at is not null;

-- An output that is gone, or going, leaves the job that made it: `output_key` becomes null.
alter table jobs add column output_removed_at timestamptz;
alter table jobs drop constraint success_has_output;
alter table jobs add constraint success_has_output check (
  status <> 'succeeded' or (error_code is null and (output_key is not null) = (output_removed_at is null)));
create index jobs_outputs_by_age on jobs (settled_at) where output_key is not null;

-- Objects to be deleted from the store. A file leaves `uploads` or its job and comes here in one transaction: from then
-- on nothing can use it. The row goes, and one of `media_deletions` comes, once the object is gone.
create table media_removals (
  object_key text primary key,
  kind text not null check (kind in ('upload', 'output', 'orphan')),
  account_id text references accounts,
  job_id text,
  size_bytes bigint not null,
  -- retention, owner, admin
  removed_by text not null check (removed_by in ('retention', 'owner', 'admin')),
  -- The owner's key id; of an admin the name as stated.
  actor text,
  removed_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  attempts int not null default 0,
  last_error text
);
create index media_removals_due on media_removals (due_at);

-- Append-only.
create table media_deletions (
  id bigint generated always as identity primary key,
  object_key text not null,
  kind text not null,
  account_id text,
  job_id text,
  size_bytes bigint not null,
  removed_by text not null,
  actor text,
  removed_at timestamptz not null,
  deleted_at timestamptz not null default now()
);
create index media_deletions_by_account on media_deletions (account_id, id desc);
create trigger media_deletions_no_change before update or delete on media_deletions
  for each row execute function table_is_append_only();
create trigger media_deletions_no_truncate before truncate on media_deletions
  for each statement execute function table_is_append_only();

-- What is due now and then, once for all processes; `result` is what the last one found.
create table chores (
  name text primary key,
  due_at timestamptz not null default now(),
  finished_at timestamptz,
  result jsonb
);

-- Names this database among those that may share an object store.
create table installation (only_row boolean primary key default true check (only_row), id uuid not null default gen_random_uuid());
insert into installation default values;

-- The trace of the submit, for what happens to the job later. Only while traces are recorded.
create table job_traces (
  job_id text primary key,
  -- W3C traceparent.
  traceparent text not null,
  created_at timestamptz not null default now()
);
create index job_traces_by_age on job_traces (created_at);
