-- Webhooks: what is to be delivered, every attempt at it, and the secrets deliveries are signed with.

-- Made the first time the account asks for one. The newest signs; those before it sign beside it until they retire.
create table webhook_secrets (
  id bigint generated always as identity primary key,
  account_id text not null references accounts,
  secret text not null,
  created_at timestamptz not null default now(),
  retires_at timestamptz
);
create unique index webhook_secrets_current on webhook_secrets (account_id) where retires_at is null;
create index webhook_secrets_by_account on webhook_secrets (account_id, id desc);

-- One for each job with a callback, written in the transaction that settles the job.
create table deliveries (
  -- The job's id under another prefix: stable however often it is tried.
  id text primary key,
  job_id text not null unique references jobs,
  account_id text not null references accounts,
  event text not null check (event in ('job.succeeded', 'job.failed')),
  url text not null,
  -- Scheme, host and port of the URL: what is slow together.
  origin text not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'abandoned')),
  -- Since it was created or replayed.
  attempts int not null default 0,
  due_at timestamptz not null default now(),
  -- A process is trying it until then; dead or not, any other may after it.
  leased_until timestamptz,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint ended_when_not_pending check ((state = 'pending') = (ended_at is null))
) with (fillfactor = 70);
create index deliveries_due on deliveries (due_at) where state = 'pending';
create index deliveries_by_account on deliveries (account_id, id desc);

-- Append-only.
create table delivery_attempts (
  id bigint generated always as identity primary key,
  delivery_id text not null references deliveries,
  at timestamptz not null,
  -- Of the answer; null when there was none, `error` says why.
  http_status int,
  error text,
  milliseconds int not null
);
create index delivery_attempts_by_delivery on delivery_attempts (delivery_id, id);
create trigger delivery_attempts_no_change before update or delete on delivery_attempts
  for each row execute function table_is_append_only();

-- Small tables with a fast turnover are swept often, or their indexes grow.
alter table outbox set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
alter table rate_windows set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
alter table account_balances set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- As before, and it owes the delivery.
create or replace function settle_job(
  p_job text, p_uid text, p_output jsonb, p_error_code text, p_error_message text, p_reason text, p_at timestamptz
) returns settle_outcome language plpgsql as $$
declare
  v_job jobs;
  v_units bigint := (p_output ->> 'milli_units')::bigint;
  v_charge bigint := 0;
  v_status text := case when p_output is null then 'failed' else 'succeeded' end;
  v_task bigint;
  v_at timestamptz := coalesce(p_at, now());
begin
  select * into v_job from jobs j where j.id = p_job for no key update;
  if not found then return row('unknown', null, null, null, null)::settle_outcome; end if;
  if v_job.settled_at is not null then
    return row('already', v_job.status, v_job.charged_micros, null, null)::settle_outcome;
  end if;
  if p_uid is not null and v_job.renderjob_uid is not null and v_job.renderjob_uid <> p_uid then
    return row('fenced', v_job.status, null, null, null)::settle_outcome;
  end if;

  if p_output is null then
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id, created_at)
      values (v_job.account_id, 'release', 'held', 'available', v_job.hold_micros, v_job.hold_id, p_job, v_at);
  else
    v_charge := greatest(v_job.minimum_micros, price_of(v_job.rate_micros, v_units));
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id, created_at)
      values (v_job.account_id, 'capture', 'held', 'revenue', least(v_charge, v_job.hold_micros), v_job.hold_id, p_job, v_at);
    if v_charge < v_job.hold_micros then
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id, created_at)
        values (v_job.account_id, 'excess', 'held', 'available', v_job.hold_micros - v_charge, v_job.hold_id, p_job, v_at);
    elsif v_charge > v_job.hold_micros then
      insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id, created_at)
        values (v_job.account_id, 'shortfall', 'available', 'revenue', v_charge - v_job.hold_micros, v_job.hold_id, p_job, v_at);
    end if;
  end if;

  update jobs j set
    status = v_status, settled_at = v_at, charged_micros = v_charge,
    renderjob_uid = coalesce(j.renderjob_uid, p_uid), renderjob_at = coalesce(j.renderjob_at, v_at),
    milli_units = v_units, output_key = p_output ->> 'key', output_content_type = p_output ->> 'content_type',
    output_size_bytes = (p_output ->> 'size_bytes')::bigint, output_sha256 = p_output ->> 'sha256',
    engine = p_output ->> 'engine', error_code = p_error_code, error_message = p_error_message, reason = p_reason
  where j.id = p_job;
  insert into outbox (kind, job_id, status) values ('event', p_job, v_status) returning id into v_task;
  if v_job.callback_url is not null then
    insert into deliveries (id, job_id, account_id, event, url, origin)
    values (replace(p_job, 'job-', 'dlv-'), p_job, v_job.account_id, 'job.' || v_status, v_job.callback_url,
            lower(substring(v_job.callback_url from '^[^/]*//[^/?#]*')));
  end if;
  return row('settled', v_status, v_charge, greatest(v_charge - v_job.hold_micros, 0), v_task)::settle_outcome;
end $$;
