-- Webhooks: deliveries, all their attempts, and the secrets that sign them.

-- Signing secrets. The first one is created on the account's first request. The newest one signs; older ones also sign
-- until they retire.
create table webhook_secrets (
  id bigint generated always as identity primary key,
  account_id text not null references accounts,
  secret text not null,
  created_at timestamptz not null default now(),
  retires_at timestamptz
);
create unique index webhook_secrets_current on webhook_secrets (account_id) where retires_at is null;
create index webhook_secrets_by_account on webhook_secrets (account_id, id desc);

-- One delivery for each job with a callback, written in the transaction that settles the job.
create table deliveries (
  -- The job's id with another prefix, so it is the same for every attempt.
  id text primary key,
  job_id text not null unique references jobs,
  account_id text not null references accounts,
  event text not null check (event in ('job.succeeded', 'job.failed')),
  url text not null,
  -- Scheme, host and port of the URL. Slowness is tracked per origin.
  origin text not null,
  state text not null default 'pending' check (state in ('pending', 'delivered', 'abandoned')),
  -- Attempts since it was created or replayed.
  attempts int not null default 0,
  due_at timestamptz not null default now(),
  -- A process is trying the delivery until this time; afterwards any other may, even if that process is alive.
  leased_until timestamptz,
  created_at timestamptz not null default now(),
  ended_at timestamptz,
  constraint ended_when_not_pending check ((state = 'pending') = (ended_at is null))
) with (fillfactor = 70);

-- Due deliveries are searched per origin, so that a long queue for one origin does not hide those for others.
create index deliveries_pending_by_origin on deliveries (origin, due_at) where state = 'pending';
create index deliveries_by_account on deliveries (account_id, id desc);

-- Append-only.
create table delivery_attempts (
  id bigint generated always as identity primary key,
  delivery_id text not null references deliveries,
  at timestamptz not null,
  -- HTTP status of the answer; null: there was no answer, and `error` says why.
  http_status int,
  error text,
  milliseconds int not null
);
create index delivery_attempts_by_delivery on delivery_attempts (delivery_id, id);
create trigger delivery_attempts_no_change before update or delete on delivery_attempts
  for each row execute function table_is_append_only();

-- The transaction that settles a job with a callback owes its delivery. The origin is truncated to the size that an
-- index accepts, so that a very long host name keeps no job from ending.

create function owe_delivery() returns trigger language plpgsql as $$
begin
  insert into deliveries (id, job_id, account_id, event, url, origin)
  values (replace(new.id, 'job-', 'dlv-'), new.id, new.account_id, 'job.' || new.status, new.callback_url,
          left(lower(substring(new.callback_url from '^[^/]*//[^/?#]*')), 512));
  return null;
end $$;
create trigger jobs_owe_delivery after update of settled_at on jobs
  for each row when (old.settled_at is null and new.settled_at is not null and new.callback_url is not null)
  execute function owe_delivery();
