-- compatible-from: 0016
-- A submit costs the same however many jobs its account has in flight: how many they are is counted as they come and go.

-- Other control planes go on while this is done. Submits lock balances before they write transfers, settlements write
-- transfers first, so whichever of the two is locked first here may be what one waits for that holds the other: rather
-- than have one of them fail as a deadlock, both locks are given back after a moment and asked for again. So a backup,
-- too, which keeps both for as long as it takes, lets calls through meanwhile.
do $$
declare
  v_before text := current_setting('lock_timeout');
begin
  perform set_config('lock_timeout', '200ms', true);
  loop
    begin
      lock table account_balances in access exclusive mode;
      lock table ledger_transfers in share row exclusive mode;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
  perform set_config('lock_timeout', v_before, true);
end $$;

-- Holds that wait for their resolution, which are the jobs in flight: a job is written with its hold, and settled with
-- the capture or the release of it. Kept by the trigger on ledger_transfers, as the balances are.
alter table account_balances add column holds_open int not null default 0 check (holds_open >= 0);

-- Nobody writes transfers until this is committed, and whoever did has committed: none is missed, none counted twice. By
-- the jobs, of which there is an index, rather than by all transfers there ever were.
update account_balances b set holds_open = j.n
  from (select account_id, count(*) as n from jobs where settled_at is null group by account_id) j
  where j.account_id = b.account_id;

-- As before, with the open holds.
create or replace function ledger_apply() returns trigger language plpgsql as $$
begin
  update account_balances set
    available_micros = available_micros
      + case when new.credit = 'available' then new.amount_micros else 0 end
      - case when new.debit = 'available' then new.amount_micros else 0 end,
    held_micros = held_micros
      + case when new.credit = 'held' then new.amount_micros else 0 end
      - case when new.debit = 'held' then new.amount_micros else 0 end,
    spent_micros = spent_micros + case when new.credit = 'revenue' then new.amount_micros else 0 end,
    topped_up_micros = topped_up_micros + case when new.debit = 'funding' then new.amount_micros else 0 end,
    -- A hold is resolved by one capture or one release; ledger_hold_resolved_once sees to it.
    holds_open = holds_open + case new.kind when 'hold' then 1 when 'capture' then -1 when 'release' then -1 else 0 end
  where account_id = new.account_id;
  if new.credit = 'revenue' then
    insert into spend_days as d (account_id, day, spent_micros)
    values (new.account_id, (new.created_at at time zone 'UTC')::date, new.amount_micros)
    on conflict (account_id, day) do update set spent_micros = d.spent_micros + excluded.spent_micros;
  end if;
  return null;
end $$;

-- As before, except that the jobs in flight are read with the balance.
-- Admits one job: all of it or nothing. Refusals write nothing, so they roll nothing back and use up no key.
-- p_inputs: [{role, key, kind}]
create or replace function submit_job(
  p_job text, p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_callback text,
  p_idempotency_key text, p_body_sha256 bytea, p_room int
) returns submit_outcome language plpgsql as $$
declare
  v_available bigint;
  v_in_flight int;
  v_ceiling int;
  v_key idempotency_keys;
  v_quote job_quote;
  v_hold_id bigint;
  v_renderjob_task bigint;
  v_event_task bigint;
begin
  -- The row lock makes everything that decides about this account's money, ceiling and keys happen one by one.
  select b.available_micros - b.reserved_micros, b.holds_open, coalesce(a.jobs_in_flight_limit, s.jobs_in_flight_per_account)
    into strict v_available, v_in_flight, v_ceiling
    from account_balances b join accounts a on a.id = b.account_id cross join settings s
    where b.account_id = p_account for no key update of b;

  if p_idempotency_key is not null then
    select * into v_key from idempotency_keys i where i.account_id = p_account and i.key = p_idempotency_key;
    if found then
      if v_key.body_sha256 <> p_body_sha256 then return row('conflict', null, null, null, null, null)::submit_outcome; end if;
      return row('replayed', v_key.job_id, null, null, null, null)::submit_outcome;
    end if;
  end if;

  v_quote := quote_with(p_account, p_capability, p_inputs, p_parameters, v_available);
  if v_quote.outcome <> 'quoted' then
    return row(v_quote.outcome, null, v_quote.detail, null, null, null)::submit_outcome;
  end if;

  if v_in_flight >= v_ceiling then
    return row('account_full', null, v_ceiling::text, null, null, null)::submit_outcome;
  end if;
  if p_room <= 0 then return row('platform_full', null, null, null, null, null)::submit_outcome; end if;
  if v_available < v_quote.hold_micros then
    return row('insufficient_balance', null, v_available::text, v_quote.hold_micros, null, null)::submit_outcome;
  end if;

  insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    values (p_account, 'hold', 'available', 'held', v_quote.hold_micros, p_job) returning id into v_hold_id;
  insert into jobs (id, account_id, capability, inputs, parameters, callback_url, hold_id, hold_micros, rate_version, unit,
                    rate_micros, minimum_micros)
    values (p_job, p_account, p_capability,
            (select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)),
            p_parameters, p_callback, v_hold_id, v_quote.hold_micros, v_quote.rate_version, v_quote.unit,
            v_quote.rate_micros, v_quote.minimum_micros);
  insert into outbox (kind, job_id) values ('renderjob', p_job) returning id into v_renderjob_task;
  insert into outbox (kind, job_id, status) values ('event', p_job, 'queued') returning id into v_event_task;
  if p_idempotency_key is not null then
    insert into idempotency_keys (account_id, key, body_sha256, job_id)
      values (p_account, p_idempotency_key, p_body_sha256, p_job);
  end if;
  return row('accepted', p_job, null, v_quote.hold_micros, v_renderjob_task, v_event_task)::submit_outcome;
end $$;

-- As before, with the open holds.
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
