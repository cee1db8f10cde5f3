-- Jobs, and their debts to other systems. 0006 begins jobs, 0007 ends them.

create table jobs (
  -- Also the name of the RenderJob.
  id text primary key,
  account_id text not null references account_balances,
  capability text not null,
  -- {role: file key}
  inputs jsonb not null,
  parameters jsonb not null,
  callback_url text,
  status text not null default 'queued' check (status in ('queued', 'processing', 'succeeded', 'failed')),
  -- Time of admission, set under the lock of the account. So the entries of an account are ordered as they became
  -- visible, and have different times.
  created_at timestamptz not null default clock_timestamp(),
  processing_at timestamptz,
  settled_at timestamptz,
  -- Set once, when the owner cancels the job. From then on it can only end as cancelled, free of charge.
  cancel_requested_at timestamptz,
  -- The quote: terms agreed at submit, whatever happens to the rates.
  hold_id bigint not null unique references ledger_transfers,
  hold_micros bigint not null,
  rate_version bigint not null,
  unit text not null,
  rate_micros bigint not null,
  minimum_micros bigint not null,
  -- metadata.uid of the RenderJob after its creation.
  renderjob_uid text,
  renderjob_at timestamptz,
  -- The outcome.
  charged_micros bigint check (charged_micros >= 0),
  milli_units bigint,
  output_key text,
  output_content_type text,
  output_size_bytes bigint,
  output_sha256 text,
  -- Set when the output is deleted or about to be; then `output_key` becomes null, and the job stays.
  output_removed_at timestamptz,
  engine text,
  -- What the engine found out about the inputs, as callers see it: {faces, hints}. Null: nothing.
  findings jsonb,
  error_code text,
  error_message text,
  -- Reason shown in the usage entry.
  reason text check (reason in ('render_failed', 'timed_out', 'cancelled')),
  constraint terminal_is_settled check (
    (status in ('succeeded', 'failed')) = (settled_at is not null) and (settled_at is null) = (charged_micros is null)),
  constraint success_has_output check (
    status <> 'succeeded' or (error_code is null and (output_key is not null) = (output_removed_at is null))),
  constraint failure_is_free check (
    (status = 'failed') = (error_code is not null) and (status <> 'failed' or (charged_micros = 0 and error_message is not null)))
) with (fillfactor = 70);
create index jobs_unsettled on jobs (account_id, id) where settled_at is null;
create index jobs_by_account on jobs (account_id, created_at, id);
create index jobs_outputs_by_age on jobs (settled_at) where output_key is not null;

create table idempotency_keys (
  account_id text not null references account_balances,
  key text not null,
  -- SHA-256 of the canonical body.
  body_sha256 bytea not null,
  job_id text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- Debts of committed transactions to the Kubernetes API (`renderjob`) and to the event stream (`event`). A row is
-- deleted when its debt is paid. The process that wrote it pays at once; from `due_at` on any other may take it over.
-- Its few rows change often, so it is vacuumed often; otherwise its indexes would grow.
create table outbox (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('renderjob', 'event')),
  job_id text not null,
  -- For an event: the status that the job reached.
  status text,
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now() + interval '2 seconds',
  attempts int not null default 0,
  last_error text
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
create index outbox_due on outbox (kind, due_at);
create index outbox_by_job on outbox (job_id);

-- Records paid debts, and the uids of the RenderJobs that some of them created. An earlier uid stays. Jobs are locked
-- in the order of ids, like in settlements, so the two cannot deadlock.
create function record_payments(p_debts bigint[], p_jobs text[], p_uids text[]) returns void
language plpgsql set enable_seqscan = off as $$
declare
  v_made record;
begin
  delete from outbox where id = any(p_debts);
  for v_made in select q.job, q.uid from unnest(p_jobs, p_uids) as q(job, uid) order by q.job loop
    update jobs set renderjob_uid = v_made.uid, renderjob_at = now() where id = v_made.job and renderjob_uid is null;
  end loop;
end $$;

-- Trace of the submit, for later spans of the job. Written only while tracing is on.
create table job_traces (
  job_id text primary key,
  -- W3C traceparent.
  traceparent text not null,
  created_at timestamptz not null default now()
);
create index job_traces_by_age on job_traces (created_at);
