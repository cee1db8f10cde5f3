-- What an account used: its calls one by one, and their sums.

-- Every billed call, of whichever kind. Live sessions join by a second branch; their reasons are
-- session_limit_reached and no_stream.
create view usage_entries as
  select id, account_id, capability, status, coalesce(charged_micros, 0) as charged_micros, reason, created_at from jobs;

-- Ended calls by the UTC hour in which they were made, so that the sum of a long history is a sum of hours.
-- Derived from jobs by a trigger. Calls under way are not in it: they are few, and are counted when asked for.
create table usage_hours (
  account_id text not null references accounts,
  hour timestamptz not null,
  capability text not null,
  succeeded bigint not null check (succeeded >= 0),
  failed bigint not null check (failed >= 0),
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (account_id, hour, capability)
) with (fillfactor = 50);

create function usage_hour(at timestamptz) returns timestamptz language sql immutable strict parallel safe as $$
  select date_trunc('hour', at, 'UTC')
$$;

create function count_usage() returns trigger language plpgsql as $$
begin
  insert into usage_hours as u (account_id, hour, capability, succeeded, failed, spent_micros)
  values (new.account_id, usage_hour(new.created_at), new.capability, (new.status = 'succeeded')::int,
          (new.status = 'failed')::int, new.charged_micros)
  on conflict (account_id, hour, capability) do update set
    succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
    spent_micros = u.spent_micros + excluded.spent_micros;
  return null;
end $$;
-- Whoever settles holds the account's row of balances by then, so hours of an account are never waited for in a circle.
create trigger jobs_count_usage after update of settled_at on jobs
  for each row when (old.settled_at is null and new.settled_at is not null) execute function count_usage();

insert into usage_hours (account_id, hour, capability, succeeded, failed, spent_micros)
  select account_id, usage_hour(created_at), capability, count(*) filter (where status = 'succeeded'),
         count(*) filter (where status = 'failed'), sum(charged_micros)
  from jobs where settled_at is not null group by 1, 2, 3;

-- The calls made in [p_from, p_to), by capability. All of it is one statement, hence of one moment: what is counted as
-- under way is not counted as ended. Whole hours come from the counters, the parts of hours at the two ends from jobs.
create function usage_summary(p_account text, p_from timestamptz, p_to timestamptz)
returns table (capability text, succeeded bigint, failed bigint, in_flight bigint, spent_micros bigint)
language plpgsql stable as $$
declare
  -- The whole hours are [v_first, v_end); in a range within one hour there are none.
  v_end timestamptz := usage_hour(p_to);
  v_first timestamptz := case when usage_hour(p_from) = p_from then p_from else usage_hour(p_from) + interval '1 hour' end;
begin
  return query
  with counted as (
    select u.capability, u.succeeded, u.failed, 0::bigint as in_flight, u.spent_micros
      from usage_hours u where u.account_id = p_account and u.hour >= v_first and u.hour < v_end
    union all
    select e.capability, (e.status = 'succeeded')::int, (e.status = 'failed')::int, 0, e.charged_micros
      from usage_entries e
      where e.account_id = p_account and e.status in ('succeeded', 'failed')
        and e.created_at >= p_from and e.created_at < least(v_first, p_to)
    union all
    select e.capability, (e.status = 'succeeded')::int, (e.status = 'failed')::int, 0, e.charged_micros
      from usage_entries e
      where e.account_id = p_account and e.status in ('succeeded', 'failed')
        and e.created_at >= greatest(v_first, v_end) and e.created_at < p_to
    union all
    select j.capability, 0, 0, 1, 0
      from jobs j
      where j.account_id = p_account and j.settled_at is null and j.created_at >= p_from and j.created_at < p_to
  )
  select c.capability, sum(c.succeeded)::bigint, sum(c.failed)::bigint, sum(c.in_flight)::bigint, sum(c.spent_micros)::bigint
    from counted c group by c.capability;
end $$;
