-- compatible-from: 0012
-- What the owner is asked: why a job failed, what an account was given back, what all accounts used in a month, which key
-- is which; and the voices that agents announce.

-- How a job went, as its RenderJob said at its end, which stays shorter than the job:
-- {reason, message, attempts: [{number, agent, started_at, ended_at, reason, message}], stages: [{name, milliseconds, engine}]}
create table job_histories (
  job_id text primary key references jobs,
  history jsonb not null
);
create index jobs_failed_by_id on jobs (id) where status = 'failed';
create index deliveries_abandoned on deliveries (id) where state = 'abandoned';

alter table api_keys
  add column name text,
  -- The first characters of the key, by which a leaked one is found. Null: the key is from before this column.
  add column prefix text,
  -- To some minutes, written by housekeeping from `rate_windows`.
  add column last_used_at timestamptz;
create index api_keys_by_prefix on api_keys (prefix) where prefix is not null;

-- Changes of the books by the owner:
--   refund      revenue   → available   a charge is given back, in whole or in part
--   correction  funding   → available   what a top-up was too small by
--   correction  available → funding     what a top-up was too large by
alter table ledger_transfers
  -- The job or session whose charge is given back.
  add column refund_of text,
  add column reason text;
-- Not valid: rows from before satisfy the narrower constraints that these replace.
alter table ledger_transfers
  drop constraint known_transfer,
  drop constraint hold_names_its_job,
  add constraint known_transfer check ((kind, debit, credit) in (
    ('top_up', 'funding', 'available'),
    ('hold', 'available', 'held'),
    ('capture', 'held', 'revenue'),
    ('excess', 'held', 'available'),
    ('shortfall', 'available', 'revenue'),
    ('release', 'held', 'available'),
    ('session', 'available', 'revenue'),
    ('refund', 'revenue', 'available'),
    ('correction', 'funding', 'available'),
    ('correction', 'available', 'funding')
  )) not valid,
  add constraint hold_names_its_job
    check ((kind in ('top_up', 'session', 'refund', 'correction')) = (job_id is null)) not valid,
  add constraint refund_names_its_charge check ((kind = 'refund') = (refund_of is not null)) not valid,
  add constraint adjustment_is_explained check (
    (kind in ('refund', 'correction')) = (reason is not null)
    and (kind not in ('refund', 'correction') or (reference is not null and amount_micros > 0))) not valid;
create index ledger_refunds on ledger_transfers (refund_of) where refund_of is not null;
create index ledger_by_time on ledger_transfers (created_at) where kind in ('top_up', 'refund', 'correction');

-- Returns the charge of a job or session of an account, and when it was booked; no row: nothing was charged.
create function charge_of(p_account text, p_id text) returns table (charged_micros bigint, booked_at timestamptz)
language sql stable as $$
  select j.charged_micros, j.settled_at from jobs j
    where j.id = p_id and j.account_id = p_account and j.charged_micros > 0
  union all
  select t.amount_micros, t.created_at from ledger_transfers t
    where t.session_id = p_id and t.account_id = p_account
$$;

-- The last line of defence: no charge is given back more than once in full.
create function refund_within_charge() returns trigger language plpgsql as $$
begin
  if new.amount_micros + coalesce((select sum(t.amount_micros) from ledger_transfers t where t.refund_of = new.refund_of), 0)
     > coalesce((select c.charged_micros from charge_of(new.account_id, new.refund_of) c), 0) then
    raise exception 'a refund of % exceeds its charge', new.refund_of
      using errcode = 'check_violation', constraint = 'refund_within_charge';
  end if;
  return new;
end $$;
create trigger refund_within_charge before insert on ledger_transfers for each row when (new.kind = 'refund')
  execute function refund_within_charge();

-- As in 0002, with adjustments. A refund lessens the spend of the day on which its charge was booked.
create or replace function ledger_apply() returns trigger language plpgsql as $$
begin
  update account_balances set
    available_micros = available_micros
      + case when new.credit = 'available' then new.amount_micros else 0 end
      - case when new.debit = 'available' then new.amount_micros else 0 end,
    held_micros = held_micros
      + case when new.credit = 'held' then new.amount_micros else 0 end
      - case when new.debit = 'held' then new.amount_micros else 0 end,
    spent_micros = spent_micros
      + case when new.credit = 'revenue' then new.amount_micros else 0 end
      - case when new.debit = 'revenue' then new.amount_micros else 0 end,
    topped_up_micros = topped_up_micros
      + case when new.debit = 'funding' then new.amount_micros else 0 end
      - case when new.credit = 'funding' then new.amount_micros else 0 end,
    -- One capture or one release resolves a hold; ledger_hold_resolved_once ensures this.
    holds_open = holds_open + case new.kind when 'hold' then 1 when 'capture' then -1 when 'release' then -1 else 0 end
  where account_id = new.account_id;
  if new.credit = 'revenue' then
    insert into spend_days as d (account_id, day, spent_micros)
    values (new.account_id, (new.created_at at time zone 'UTC')::date, new.amount_micros)
    on conflict (account_id, day) do update set spent_micros = d.spent_micros + excluded.spent_micros;
  elsif new.debit = 'revenue' then
    update spend_days d set spent_micros = d.spent_micros - new.amount_micros
      from charge_of(new.account_id, new.refund_of) c
      where d.account_id = new.account_id and d.day = (c.booked_at at time zone 'UTC')::date;
  end if;
  return null;
end $$;

-- Hours of usage_hours by UTC month, so that a month of all accounts is read at once.
create table usage_months (
  month date not null,
  account_id text not null references accounts,
  capability text not null,
  succeeded bigint not null check (succeeded >= 0),
  failed bigint not null check (failed >= 0),
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (month, account_id, capability)
) with (fillfactor = 50);

create function usage_month(at timestamptz) returns date language sql immutable strict parallel safe as $$
  select date_trunc('month', at at time zone 'UTC')::date
$$;

-- Follows usage_hours, whichever release counts in it.
create function count_month() returns trigger language plpgsql as $$
begin
  insert into usage_months as u (month, account_id, capability, succeeded, failed, spent_micros)
  values (usage_month(new.hour), new.account_id, new.capability, new.succeeded - coalesce(old.succeeded, 0),
          new.failed - coalesce(old.failed, 0), new.spent_micros - coalesce(old.spent_micros, 0))
  on conflict (month, account_id, capability) do update set
    succeeded = u.succeeded + excluded.succeeded, failed = u.failed + excluded.failed,
    spent_micros = u.spent_micros + excluded.spent_micros;
  return null;
end $$;
-- It locks the table, so that every hour is in the sums below or comes by the trigger.
create trigger usage_hours_count_month after insert or update on usage_hours for each row execute function count_month();
insert into usage_months
  select usage_month(hour), account_id, capability, sum(succeeded), sum(failed), sum(spent_micros)
  from usage_hours group by 1, 2, 3;

-- Returns what the accounts after p_after, in the order of their ids, used in a UTC month, and what was booked for them
-- in it beside charges. Accounts without either are left out.
create function usage_of_accounts(p_month date, p_after text, p_limit int)
returns table (account_id text, name text, succeeded bigint, failed bigint, in_flight bigint, spent_micros bigint,
               topped_up_micros bigint, refunded_micros bigint, corrected_micros bigint, available_micros bigint)
language sql stable as $$
  with bounds as (
    select p_month::timestamp at time zone 'UTC' as first, (p_month + interval '1 month') at time zone 'UTC' as past
  ), counted as (
    select u.account_id, u.succeeded, u.failed, 0 as in_flight, u.spent_micros, 0::bigint as topped_up, 0::bigint as refunded,
           0::bigint as corrected
      from usage_months u where u.month = p_month and u.account_id > p_after
    union all
    select j.account_id, 0, 0, 1, 0, 0, 0, 0 from jobs j, bounds b
      where j.settled_at is null and j.created_at >= b.first and j.created_at < b.past and j.account_id > p_after
    union all
    select s.account_id, 0, 0, 1, 0, 0, 0, 0 from sessions s, bounds b
      where s.ended_at is null and s.created_at >= b.first and s.created_at < b.past and s.account_id > p_after
    union all
    select t.account_id, 0, 0, 0, 0, case t.kind when 'top_up' then t.amount_micros else 0 end,
           case t.kind when 'refund' then t.amount_micros else 0 end,
           case t.kind when 'correction' then case t.credit when 'available' then t.amount_micros else -t.amount_micros end
             else 0 end
      from ledger_transfers t, bounds b
      where t.kind in ('top_up', 'refund', 'correction') and t.created_at >= b.first and t.created_at < b.past
        and t.account_id > p_after
  ), summed as (
    select c.account_id, sum(c.succeeded)::bigint as succeeded, sum(c.failed)::bigint as failed,
           sum(c.in_flight)::bigint as in_flight, sum(c.spent_micros)::bigint as spent_micros,
           sum(c.topped_up)::bigint as topped_up, sum(c.refunded)::bigint as refunded, sum(c.corrected)::bigint as corrected
      from counted c group by c.account_id order by c.account_id limit p_limit
  )
  select s.account_id, a.name, s.succeeded, s.failed, s.in_flight, s.spent_micros, s.topped_up, s.refunded, s.corrected,
         b.available_micros
    from summed s join accounts a on a.id = s.account_id join account_balances b on b.account_id = s.account_id
    order by s.account_id
$$;

-- Recomputes the books of one account from the transfers alone, compares them with everything stored beside them, and
-- checks the sum of the whole ledger, as in 0009, with months of usage and refunds. One row per
-- difference; no row: the books are right.
create or replace function ledger_faults(p_account text) returns table (fault text, expected numeric, found numeric)
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
    select 'months of usage counted wrongly', 0, count(*)
      from (select usage_month(hour) as month, capability, sum(succeeded) as succeeded, sum(failed) as failed, sum(spent) as spent
              from ended group by 1, 2) e
      full join (select * from usage_months where account_id = p_account) u using (month, capability)
      where (e.succeeded, e.failed, e.spent) is distinct from (u.succeeded, u.failed, u.spent_micros)
    union all
    select 'charges given back more than they are', 0, count(*)
      from (select refund_of, sum(amount_micros) as refunded from ledger_transfers
              where account_id = p_account and kind = 'refund' group by refund_of) r
      where r.refunded > coalesce((select c.charged_micros from charge_of(p_account, r.refund_of) c), 0)
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

-- Voices and languages of Avatar, as agents last announced them; packages/engine-api/speech.ts has their form.
create table announced_voices (
  -- Name of the AgentPool; '' for agents without one.
  source text primary key,
  -- Null: an agent of it says nothing about its voices, so that any may be there.
  speech jsonb
);
