-- Usage of an account: its calls, and their sums.

-- Every billed call. A session that is not open yet, or was refused, has no time and so is in no range.
create view usage_entries as
  select id, account_id, capability, status, coalesce(charged_micros, 0) as charged_micros, reason, created_at from jobs
  union all
  select id, account_id, capability, status, coalesce(charged_micros, 0), reason, created_at from sessions;

-- Ended calls by the UTC hour in which they were made, so that the sum of a long history is a sum of hours. Triggers
-- derive it from jobs and sessions. Calls under way are few, and are counted on request.
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

-- Every settlement already holds the account's row of balances, so updates of an account's hours cannot deadlock.
create trigger jobs_count_usage after update of settled_at on jobs
  for each row when (old.settled_at is null and new.settled_at is not null) execute function count_usage();

-- Works as for jobs. A refused session is not a call.
create trigger sessions_count_usage after update of ended_at on sessions
  for each row when (old.ended_at is null and new.ended_at is not null and new.created_at is not null)
  execute function count_usage();

-- Sums the calls made in [p_from, p_to), by capability. It is one statement and so sees one moment: a call counted as
-- under way is not counted as ended. Whole hours come from usage_hours, the partial hours at both ends from the
-- entries.
create function usage_summary(p_account text, p_from timestamptz, p_to timestamptz)
returns table (capability text, succeeded bigint, failed bigint, in_flight bigint, spent_micros bigint)
language plpgsql stable as $$
declare
  -- The whole hours are [v_first, v_end); a range within one hour has none.
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
    union all
    select s.capability, 0, 0, 1, 0
      from sessions s
      where s.account_id = p_account and s.ended_at is null and s.created_at >= p_from and s.created_at < p_to
  )
  select c.capability, sum(c.succeeded)::bigint, sum(c.failed)::bigint, sum(c.in_flight)::bigint, sum(c.spent_micros)::bigint
    from counted c group by c.capability;
end $$;

-- Recomputes the books of one account from the transfers alone, compares them with everything stored beside them, and
-- checks the sum of the whole ledger. One row per difference; no row: the books are right.
create function ledger_faults(p_account text) returns table (fault text, expected numeric, found numeric)
language sql stable as $$
  with booked as (
    select coalesce(sum(amount_micros) filter (where ledger_account = 'available'), 0) as available,
           coalesce(sum(amount_micros) filter (where ledger_account = 'held'), 0) as held,
           coalesce(sum(amount_micros) filter (where ledger_account = 'revenue'), 0) as spent,
           -coalesce(sum(amount_micros) filter (where ledger_account = 'funding'), 0) as topped_up
      from ledger_entries where account_id = p_account
  ), holds as (
    select h.id, h.job_id, h.amount_micros,
           count(r.id) filter (where r.kind in ('capture', 'release')) as resolutions,
           coalesce(sum(r.amount_micros) filter (where r.debit = 'held'), 0) as resolved,
           coalesce(sum(r.amount_micros) filter (where r.credit = 'revenue'), 0) as charged
      from ledger_transfers h left join ledger_transfers r on r.hold_id = h.id
      where h.account_id = p_account and h.kind = 'hold' group by h.id
  ), ended as (
    select usage_hour(created_at) as hour, capability, count(*) filter (where status = 'succeeded') as succeeded,
           count(*) filter (where status = 'failed') as failed, sum(charged_micros) as spent
      from usage_entries where account_id = p_account and status in ('succeeded', 'failed') and created_at is not null group by 1, 2
  ), blocks as (
    select s.id as session, s.ended_at, s.max_cost_micros, r.id as block, r.amount_micros, r.released_at
      from (select * from sessions where account_id = p_account) s
      full join (select * from reservations where account_id = p_account) r on r.id = s.id
  ), checks(fault, expected, found) as (
    select 'available balance', available, (select available_micros::numeric from account_balances where account_id = p_account) from booked
    union all
    select 'held balance', held, (select held_micros from account_balances where account_id = p_account) from booked
    union all
    select 'spent balance', spent, (select spent_micros from account_balances where account_id = p_account) from booked
    union all
    select 'topped up balance', topped_up, (select topped_up_micros from account_balances where account_id = p_account) from booked
    union all
    select 'reserved balance', coalesce(sum(r.amount_micros), 0), (select reserved_micros from account_balances where account_id = p_account)
      from reservations r where r.account_id = p_account and r.released_at is null
    union all
    select 'open blocks of no session', 0, count(*) from blocks where session is null and released_at is null
    union all
    select 'blocks that outlive their session, or sessions their block', 0, count(*) from blocks
      where session is not null and max_cost_micros > 0
        and (block is null or amount_micros <> max_cost_micros or (ended_at is null) <> (released_at is null))
    union all
    select 'sessions charged other than booked', 0, count(*)
      from (select * from sessions where account_id = p_account) s
      full join (select * from ledger_transfers where account_id = p_account and kind = 'session') t on t.session_id = s.id
      where coalesce(s.charged_micros, 0) <> coalesce(t.amount_micros, 0)
    union all
    select 'open holds', (select count(*) from holds where resolutions = 0), (select holds_open from account_balances where account_id = p_account)
    union all
    select 'spend by day', spent, (select coalesce(sum(spent_micros), 0) from spend_days where account_id = p_account) from booked
    union all
    select 'hours of usage counted wrongly', 0, count(*)
      from ended e full join (select * from usage_hours where account_id = p_account) u using (hour, capability)
      where (e.succeeded, e.failed, e.spent) is distinct from (u.succeeded, u.failed, u.spent_micros)
    union all
    select 'pending holds', held, (select coalesce(sum(amount_micros), 0) from holds where resolutions = 0) from booked
    union all
    select 'holds resolved other than once and in full', 0, count(*) from holds
      where resolutions > 1 or resolved <> case resolutions when 0 then 0 else amount_micros end
    union all
    select 'jobs without their hold', 0, count(*) from jobs j left join holds h on h.id = j.hold_id and h.job_id = j.id
      where j.account_id = p_account and h.id is null
    union all
    select 'holds without their job', 0, count(*) from holds h left join jobs j on j.hold_id = h.id and j.id = h.job_id
      where j.id is null
    union all
    select 'holds that outlive their job, or jobs their hold', 0, count(*) from jobs j join holds h on h.id = j.hold_id
      where j.account_id = p_account and (j.settled_at is not null) <> (h.resolutions = 1)
    union all
    select 'jobs charged other than booked', 0, count(*) from jobs j join holds h on h.id = j.hold_id
      where j.account_id = p_account and coalesce(j.charged_micros, 0) <> h.charged
    union all
    select 'sum of the whole ledger', 0, coalesce(sum(amount_micros), 0) from ledger_entries
    union all
    select 'sum of all stored balances', 0,
           coalesce(sum(available_micros + held_micros + spent_micros - topped_up_micros), 0) from account_balances
  )
  select * from checks where expected is distinct from found
$$;
