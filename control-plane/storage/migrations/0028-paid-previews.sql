-- compatible-from: 0012
-- Frame previews that cost something, and what a cap leaves for an estimate.
--
-- `jobs.key_id` and `jobs.submit_key_id` stay two columns. The second is the key of every submit, by which caps count. The first
-- has it of jobs with a callback alone, and is all that code between 0018 and 0024 reads for the links of a webhook. It goes when
-- no migration is compatible with that any more. The older jobs that have only the first must not get the second: what they were
-- charged is in no `key_spend_days`.

-- What a frame preview costs, whatever its size, which is always small. Rates that code before this column sets have the price
-- that is in force, as what is not named stays.
alter table rates add column preview_micros bigint not null default 0 check (preview_micros >= 0);
alter table rates_to_come add column preview_micros bigint not null default 0 check (preview_micros >= 0);
alter table rates alter column preview_micros drop default;
alter table rates_to_come alter column preview_micros drop default;
create function keep_preview_price() returns trigger language plpgsql as $$
begin
  if new.preview_micros is null then
    new.preview_micros := coalesce((select r.preview_micros from rates_in_force(new.capability, new.account_id) r), 0);
  end if;
  return new;
end $$;
create trigger rates_preview_price before insert on rates for each row execute function keep_preview_price();
create trigger rates_preview_price before insert on rates_to_come for each row execute function keep_preview_price();

-- Makes versions of the agreed rates whose moment has come, as in 0013, with their price of previews.
create or replace function start_rates() returns setof bigint language sql as $$
  with due as (delete from rates_to_come where starts_at <= now() returning *)
  insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units, preview_micros)
  select capability, account_id, unit, rates, minimum_micros, hold_milli_units, preview_micros from due order by starts_at, id
  returning version
$$;

-- Previews that were charged; of free ones nothing is kept. A row is written with its transfer when the frame is delivered.
create table paid_previews (
  id text primary key,
  account_id text not null references account_balances,
  capability text not null,
  -- Null: there was none.
  key_id text,
  rate_version bigint not null references rates,
  charged_micros bigint not null check (charged_micros > 0),
  -- Set under the lock of the account, as for jobs, so that the entries of an account have different times.
  created_at timestamptz not null default clock_timestamp()
);
create index paid_previews_by_account on paid_previews (account_id, created_at, id);
create trigger paid_previews_no_change before update or delete on paid_previews
  for each row execute function table_is_append_only();

--   preview     available → revenue     a frame preview was delivered: the charge
alter table ledger_transfers add column preview_id text;
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
    ('preview', 'available', 'revenue'),
    ('refund', 'revenue', 'available'),
    ('correction', 'funding', 'available'),
    ('correction', 'available', 'funding')
  )) not valid,
  add constraint hold_names_its_job
    check ((kind in ('top_up', 'session', 'preview', 'refund', 'correction')) = (job_id is null)) not valid,
  add constraint charge_names_its_preview check ((kind = 'preview') = (preview_id is not null)) not valid,
  add constraint preview_charge_moves_something check (kind <> 'preview' or amount_micros > 0) not valid,
  add constraint charged_preview foreign key (preview_id) references paid_previews not valid;
create unique index ledger_preview_charged_once on ledger_transfers (preview_id) where preview_id is not null;

-- As in 0021, also of previews.
create or replace function charge_of(p_account text, p_id text) returns table (charged_micros bigint, booked_at timestamptz)
language sql stable as $$
  select j.charged_micros, j.settled_at from jobs j
    where j.id = p_id and j.account_id = p_account and j.charged_micros > 0
  union all
  select t.amount_micros, t.created_at from ledger_transfers t
    where t.session_id = p_id and t.account_id = p_account
  union all
  select p.charged_micros, p.created_at from paid_previews p where p.id = p_id and p.account_id = p_account
$$;

-- As in 0025, also of previews.
create or replace function lessen_key_spend() returns trigger language plpgsql as $$
begin
  update key_spend_days d set spent_micros = d.spent_micros - new.amount_micros
    from charge_of(new.account_id, new.refund_of) c
    where d.day = (c.booked_at at time zone 'UTC')::date
      and d.key_id = coalesce((select j.submit_key_id from jobs j where j.id = new.refund_of),
                              (select s.key_id from sessions s where s.id = new.refund_of),
                              (select p.key_id from paid_previews p where p.id = new.refund_of));
  return null;
end $$;

-- Every billed call, as in 0009, also previews.
create or replace view usage_entries as
  select id, account_id, capability, status, coalesce(charged_micros, 0) as charged_micros, reason, created_at from jobs
  union all
  select id, account_id, capability, status, coalesce(charged_micros, 0), reason, created_at from sessions
  union all
  select id, account_id, capability, 'succeeded', charged_micros, null, created_at from paid_previews;

create function count_preview() returns trigger language plpgsql as $$
begin
  insert into usage_hours as u (account_id, hour, capability, succeeded, failed, spent_micros)
  values (new.account_id, usage_hour(new.created_at), new.capability, 1, 0, new.charged_micros)
  on conflict (account_id, hour, capability) do update set
    succeeded = u.succeeded + 1, spent_micros = u.spent_micros + excluded.spent_micros;
  if new.key_id is not null then perform spend_with_key(new.key_id, new.created_at, new.charged_micros); end if;
  return null;
end $$;
create trigger paid_previews_count after insert on paid_previews for each row execute function count_preview();

create type preview_outcome as (
  -- free; due: it may be charged; charged; already: by an earlier call with this id; insufficient_balance (`detail`: what is
  -- available); capped (`detail`: the cap as JSON)
  outcome text,
  detail text,
  micros bigint,
  rate_version bigint
);

-- Returns what a preview would cost now, and whether it can be paid. Holds nothing.
-- p_version: of the rates that count; null: those in force
create function quote_preview(p_account text, p_capability text, p_key text, p_version bigint default null)
returns preview_outcome language plpgsql stable as $$
declare
  v_rates rates;
  v_available bigint;
  v_cap cap_state;
begin
  if p_version is null then
    select * into strict v_rates from rates_in_force(p_capability, p_account);
  else
    select * into strict v_rates from rates r where r.version = p_version;
  end if;
  if v_rates.preview_micros = 0 then return row('free', null, 0, v_rates.version)::preview_outcome; end if;
  select b.available_micros - b.reserved_micros into strict v_available from account_balances b where b.account_id = p_account;
  if v_available < v_rates.preview_micros then
    return row('insufficient_balance', v_available::text, v_rates.preview_micros, v_rates.version)::preview_outcome;
  end if;
  v_cap := tightest_cap(p_account, p_key);
  if cap_room(v_cap) < v_rates.preview_micros then
    return row('capped', to_json(v_cap)::text, v_rates.preview_micros, v_rates.version)::preview_outcome;
  end if;
  return row('due', null, v_rates.preview_micros, v_rates.version)::preview_outcome;
end $$;

-- Charges a preview that is about to be delivered, by the rates that it was quoted by. Repeating the call changes nothing.
create function charge_preview(p_id text, p_account text, p_capability text, p_key text, p_version bigint)
returns preview_outcome language plpgsql as $$
declare
  v_charge preview_outcome;
  v_before paid_previews;
  v_at timestamptz;
begin
  -- As in submit_job, this lock serialises what decides about the account's money. The quote reads after it.
  perform 1 from account_balances b where b.account_id = p_account for no key update;
  select * into v_before from paid_previews p where p.id = p_id;
  if found then return row('already', null, v_before.charged_micros, v_before.rate_version)::preview_outcome; end if;
  v_charge := quote_preview(p_account, p_capability, p_key, p_version);
  if v_charge.outcome <> 'due' then return v_charge; end if;
  insert into paid_previews (id, account_id, capability, key_id, rate_version, charged_micros)
    values (p_id, p_account, p_capability, p_key, p_version, v_charge.micros) returning created_at into v_at;
  insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, preview_id, created_at)
    values (p_account, 'preview', 'available', 'revenue', v_charge.micros, p_id, v_at);
  perform note_caps(p_account, p_key);
  return row('charged', null, v_charge.micros, p_version)::preview_outcome;
end $$;

-- Takes back that a preview of a day was counted, since no agent began it.
create function give_back_frame_preview(p_account text, p_day date) returns void language sql as $$
  update frame_previews set previews = previews - 1 where account_id = p_account and day = p_day and previews > 0
$$;

-- Recomputes the books of one account, as in 0021, with previews and what keys spent. One row per difference; no row: the books
-- are right.
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
  ), with_keys as (
    select submit_key_id as key_id, settled_at as at, id, charged_micros from jobs
      where account_id = p_account and submit_key_id is not null and charged_micros > 0
    union all
    select key_id, ended_at, id, charged_micros from sessions
      where account_id = p_account and key_id is not null and charged_micros > 0
    union all
    select key_id, created_at, id, charged_micros from paid_previews where account_id = p_account and key_id is not null
  ), spent_with_keys as (
    select w.key_id, (w.at at time zone 'UTC')::date as day,
           w.charged_micros - coalesce((select sum(t.amount_micros) from ledger_transfers t where t.refund_of = w.id), 0) as micros
      from with_keys w
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
    select 'previews charged other than booked', 0, count(*)
      from (select * from paid_previews where account_id = p_account) p
      full join (select * from ledger_transfers where account_id = p_account and kind = 'preview') t on t.preview_id = p.id
      where coalesce(p.charged_micros, 0) <> coalesce(t.amount_micros, 0)
    union all
    select 'open holds', (select count(*) from holds where resolutions = 0), (select holds_open from account_balances where account_id = p_account)
    union all
    select 'spend by day', spent, (select coalesce(sum(spent_micros), 0) from spend_days where account_id = p_account) from booked
    union all
    select 'spend of keys by day counted wrongly', 0, count(*)
      from (select key_id, day, sum(micros) as spent from spent_with_keys group by 1, 2) e
      full join (select d.* from key_spend_days d join api_keys k on k.id = d.key_id where k.account_id = p_account) d
        using (key_id, day)
      where coalesce(e.spent, 0) <> coalesce(d.spent_micros, 0)
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

