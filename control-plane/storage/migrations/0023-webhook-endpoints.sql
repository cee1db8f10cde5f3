-- compatible-from: 0012
-- Webhook endpoints of accounts, and deliveries of events that are not the end of a job.

-- An address that an account wants its events at. A deleted one stays for its deliveries.
create table webhook_endpoints (
  id text primary key,
  account_id text not null references accounts,
  url text not null,
  description text not null default '',
  events text[] not null check (cardinality(events) > 0),
  enabled boolean not null default true,
  -- Why it is not enabled: `owner`, or `failing` when nothing but failures came for days.
  disabled_by text check (disabled_by in ('owner', 'failing')),
  -- Since when all its attempts have failed. Null: the last one succeeded, or there was none.
  failing_since timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  deleted_at timestamptz,
  constraint reason_when_disabled check (enabled = (disabled_by is null)),
  constraint deleted_is_disabled check (deleted_at is null or not enabled)
);
create index webhook_endpoints_by_account on webhook_endpoints (account_id, id) where deleted_at is null;

-- The transaction that makes an endpoint makes the secret that signs its deliveries.
create trigger webhook_endpoints_owe_secret after insert on webhook_endpoints
  for each row execute function owe_webhook_secret();

-- A delivery of a job has no data: its body is the record of the job when it is sent. Any other has the data of its event.
alter table deliveries
  alter column job_id drop not null,
  drop constraint deliveries_job_id_key,
  drop constraint deliveries_event_check,
  -- Null: it goes to a `callback_url`.
  add column endpoint_id text references webhook_endpoints,
  -- What the event is about: a job, or whatever happens once.
  add column subject text,
  add column data jsonb,
  add constraint job_or_data check ((job_id is null) = (data is not null)),
  add constraint subject_when_data check (data is null or subject is not null);
create unique index deliveries_by_job on deliveries (job_id) where endpoint_id is null;
create unique index deliveries_of_jobs_to_endpoints on deliveries (job_id, endpoint_id) where endpoint_id is not null;
create unique index deliveries_of_events_to_endpoints on deliveries (endpoint_id, event, subject) where data is not null;
create unique index deliveries_of_events_to_callbacks on deliveries (account_id, event, subject)
  where data is not null and endpoint_id is null;
create index deliveries_by_endpoint on deliveries (endpoint_id, created_at desc, id desc) where endpoint_id is not null;
create index deliveries_by_time on deliveries (account_id, created_at desc, id desc);

-- Returns an identifier as `newId` of the services makes it: 48 bits of Unix milliseconds and 80 random bits in Crockford's
-- base 32, which sorts by time.
create function new_id(p_prefix text) returns text language sql volatile as $$
  select p_prefix || string_agg(substr('0123456789abcdefghjkmnpqrstvwxyz', 1 + bit_part::int, 1), '' order by place)
  from (select lpad('', 2, '0') || (floor(extract(epoch from clock_timestamp()) * 1000)::bigint)::bit(48)::text
               || substr(('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128)::text, 1, 40)
               || substr(('x' || replace(gen_random_uuid()::text, '-', ''))::bit(128)::text, 1, 40) as bits) made,
       lateral (select place, substr(bits, 1 + 5 * place, 5)::bit(5)::int as bit_part from generate_series(0, 25) place) part
$$;

-- Returns scheme, host and port of a URL, truncated to the size that an index accepts, so that a very long host name stops
-- nothing.
create function origin_of(p_url text) returns text language sql immutable as $$
  select left(lower(substring(p_url from '^[^/]*//[^/?#]*')), 512)
$$;

-- The transaction that settles a job owes its deliveries: to its callback, and to the endpoints that chose its event.
create or replace function owe_delivery() returns trigger language plpgsql as $$
begin
  if new.callback_url is not null then
    insert into deliveries (id, job_id, account_id, event, url, origin)
    values (replace(new.id, 'job-', 'dlv-'), new.id, new.account_id, 'job.' || new.status, new.callback_url,
            origin_of(new.callback_url));
  end if;
  insert into deliveries (id, job_id, account_id, event, url, origin, endpoint_id)
    select new_id('dlv-'), new.id, new.account_id, 'job.' || new.status, e.url, origin_of(e.url), e.id
    from webhook_endpoints e
    where e.account_id = new.account_id and e.deleted_at is null and e.enabled and 'job.' || new.status = any(e.events);
  return null;
end $$;
drop trigger jobs_owe_delivery on jobs;
create trigger jobs_owe_delivery after update of settled_at on jobs
  for each row when (old.settled_at is null and new.settled_at is not null)
  execute function owe_delivery();

-- Owes the deliveries of an event in the transaction in which it happens: to an address if one is given, and to the enabled
-- endpoints of the account that chose the event. The same event about the same subject goes to each of them once.
-- p_data: `data` of the body
create function owe_event(p_account text, p_event text, p_subject text, p_data jsonb, p_callback_url text default null)
returns void language plpgsql as $$
begin
  if p_callback_url is not null then
    perform make_webhook_secret(p_account);
    insert into deliveries (id, account_id, event, subject, data, url, origin)
      values (new_id('dlv-'), p_account, p_event, p_subject, p_data, p_callback_url, origin_of(p_callback_url))
      on conflict do nothing;
  end if;
  insert into deliveries (id, account_id, event, subject, data, url, origin, endpoint_id)
    select new_id('dlv-'), p_account, p_event, p_subject, p_data, e.url, origin_of(e.url), e.id
    from webhook_endpoints e
    where e.account_id = p_account and e.deleted_at is null and e.enabled and p_event = any(e.events)
    on conflict do nothing;
end $$;

-- Ends the deliveries to an endpoint that nobody tries yet. Those that are being tried end with their attempt.
create function end_deliveries(p_endpoint text) returns void language sql as $$
  update deliveries set state = 'abandoned', ended_at = now(), leased_until = null
  where endpoint_id = p_endpoint and state = 'pending'
$$;

-- The deliveries that an account looks for first: few among all.
create index deliveries_unsettled_by_account on deliveries (account_id, created_at desc, id desc) where state <> 'delivered';
