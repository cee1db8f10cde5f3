-- How a job begins: its price, the free capacity, and the one transaction that admits it.

create type job_quote as (
  -- quoted, or the reason of a refusal: capability_unavailable, unknown_input and wrong_kind (`detail`: the role)
  outcome text,
  detail text,
  hold_micros bigint,
  rate_micros bigint,
  minimum_micros bigint,
  unit text,
  rate_version bigint,
  -- Amount that a hold may take: the balance less the reservations.
  available_micros bigint
);

-- Checks and prices a job that would be submitted now. Submits and estimates both use it.
-- p_available: amount that a hold may take; the caller has read it, a submit under the lock of the account.
-- p_inputs: [{role, key, kind}]
create function quote_with(
  p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_available bigint
) returns job_quote language plpgsql stable as $$
declare
  v_quote job_quote;
  v_kind text;
  v_rates rates;
begin
  if not exists (select 1 from capabilities c where c.name = p_capability and c.switched_on and c.has_engine) then
    v_quote.outcome := 'capability_unavailable';
    return v_quote;
  end if;
  select i.role, u.kind into v_quote.detail, v_kind
    from jsonb_to_recordset(p_inputs) as i(role text, key text, kind text)
    left join uploads u on u.file_key = i.key and u.account_id = p_account and u.completed_at is not null
    where u.kind is distinct from i.kind
    order by i.role limit 1;
  if found then
    v_quote.outcome := case when v_kind is null then 'unknown_input' else 'wrong_kind' end;
    return v_quote;
  end if;
  select * into strict v_rates from rates r
    where r.capability = p_capability and (r.account_id = p_account or r.account_id is null)
    order by r.account_id is null, r.version desc limit 1;
  select (e.rate ->> 'rate_micros')::bigint into strict v_quote.rate_micros
    from jsonb_array_elements(v_rates.rates) with ordinality e(rate, n)
    where p_parameters @> (e.rate -> 'when') order by e.n limit 1;
  v_quote.outcome := 'quoted';
  v_quote.hold_micros := greatest(v_rates.minimum_micros, price_of(v_quote.rate_micros, v_rates.hold_milli_units));
  v_quote.minimum_micros := v_rates.minimum_micros;
  v_quote.unit := v_rates.unit;
  v_quote.rate_version := v_rates.version;
  v_quote.available_micros := p_available;
  return v_quote;
end $$;

-- Returns what a submit would hold, or why it would be refused, without its locks, ceilings and writes.
create function quote_job(p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb)
returns job_quote language plpgsql stable as $$
declare
  v_available bigint;
begin
  select b.available_micros - b.reserved_micros into strict v_available from account_balances b where b.account_id = p_account;
  return quote_with(p_account, p_capability, p_inputs, p_parameters, v_available);
end $$;

-- Result of the latest count of jobs in flight, from which an upper bound follows. Every job has a hold, and every hold
-- takes the next number of ledger_transfers. So at most as many jobs were added since as numbers were taken. Ended jobs
-- and numbers of other transfers make the bound too high, never too low, until the next count. The table may be lost:
-- after a crash of the server it is empty, and somebody counts.
create unlogged table platform_in_flight (
  only_row boolean primary key default true check (only_row),
  -- Every job in flight whose hold has at most the number `up_to` is counted. Null: nobody has counted.
  counted bigint,
  up_to bigint,
  -- For the next count: a number, and a transaction that began after this number was taken. When all earlier
  -- transactions have ended, no hold up to this number can appear any more. A count does not see jobs of transactions
  -- under way.
  next_up_to bigint not null,
  next_after xid8 not null
) with (fillfactor = 50);

-- Returns the number of jobs in flight, at most `p_most`. It always uses their index: while the table is small, the
-- planner would read all jobs that ever existed, which takes ten times as long.
create function count_in_flight(p_most int) returns int language sql stable set enable_seqscan = off as $$
  select count(*)::int from (select 1 from jobs where settled_at is null limit p_most) n
$$;

-- Returns how many more jobs the platform takes, or a smaller number that is at least 64 while there is room for more.
-- Near the ceiling, admissions wait for one another until their transactions end; far from it, nobody waits. Near the
-- ceiling nobody waits for admissions that began far from it, so those under way may exceed the ceiling: by 64 per
-- control plane (2 batches of 32).
create function platform_room() returns int language plpgsql as $$
declare
  v_ceiling int := (select jobs_in_flight from settings);
  v_known platform_in_flight;
  v_last bigint;
  v_room int;
  v_keeps boolean;
  v_complete boolean;
begin
  select * into v_known from platform_in_flight;
  select s.last_value into v_last from ledger_transfers_id_seq s;
  if v_known.counted + v_last - v_known.up_to <= v_ceiling - 64 and v_last >= v_known.up_to then
    return v_ceiling - (v_known.counted + v_last - v_known.up_to);
  end if;

  -- One of the transactions that count at the same time stores the result for the others, and nobody waits for it. A
  -- transaction that already has its id may be older than transactions that took numbers before this, so it stores
  -- nothing.
  v_keeps := pg_current_xact_id_if_assigned() is null and pg_try_advisory_xact_lock(7362652636266226);
  if v_keeps then
    select * into v_known from platform_in_flight;
    v_complete := v_known.next_after <= pg_snapshot_xmin(pg_current_snapshot());
  end if;
  v_room := v_ceiling - count_in_flight(v_ceiling);
  if v_room < 64 then
    perform pg_advisory_xact_lock(7362652636266224);
    v_room := v_ceiling - count_in_flight(v_ceiling);
  elsif v_keeps then
    select s.last_value into v_last from ledger_transfers_id_seq s;
    -- A submit gets its id with its lock on a balance, before it takes a number. So every transaction that took one of
    -- these numbers is older than this one.
    if v_complete then
      update platform_in_flight set counted = v_ceiling - v_room, up_to = next_up_to,
                                    next_up_to = v_last, next_after = pg_current_xact_id();
    elsif v_complete is null then
      insert into platform_in_flight (next_up_to, next_after) values (v_last, pg_current_xact_id());
    elsif v_known.next_after > pg_current_xact_id() then
      -- The row was restored from a backup of another server.
      update platform_in_flight set next_up_to = v_last, next_after = pg_current_xact_id();
    end if;
  end if;
  return v_room;
end $$;

create type submit_outcome as (
  -- accepted, replayed, or the reason of the refusal: conflict (the Idempotency-Key came with another body),
  -- capability_unavailable, unknown_input and wrong_kind (`detail`: the role), account_full, platform_full,
  -- insufficient_balance
  outcome text,
  job_id text,
  detail text,
  amount_micros bigint,
  renderjob_task bigint,
  event_task bigint
);

-- Admits one job, completely or not at all. A refusal writes nothing, so it rolls nothing back and uses up no key.
-- p_inputs: [{role, key, kind}]
create function submit_job(
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
  -- The row lock serialises everything that decides about this account's money, ceiling and keys.
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

-- Admits a batch in one transaction. Rows are locked in the order of accounts, so two batches cannot deadlock.
-- p_requests: [{job, account, capability, inputs, parameters, callback, idempotency_key, body_sha256 (hex)}]
create function submit_jobs(p_requests jsonb) returns table (place bigint, result submit_outcome) language plpgsql as $$
declare
  v_room int := platform_room();
  v_request record;
begin
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (job text, account text, capability text, inputs jsonb, parameters jsonb,
                                         callback text, idempotency_key text, body_sha256 text)
    ) with ordinality as q(job, account, capability, inputs, parameters, callback, idempotency_key, body_sha256, place)
    order by q.account, q.place
  loop
    place := v_request.place;
    result := submit_job(v_request.job, v_request.account, v_request.capability, v_request.inputs, v_request.parameters,
                         v_request.callback, v_request.idempotency_key, decode(v_request.body_sha256, 'hex'), v_room);
    if (result).outcome = 'accepted' then v_room := v_room - 1; end if;
    return next;
  end loop;
end $$;

-- Retracted submits. The control plane did not learn their outcome and answered that they failed, so nothing is billed
-- for them, whenever their statement is executed.

create table retracted_submits (
  job_id text primary key,
  at timestamptz not null default now()
);
create index retracted_submits_by_age on retracted_submits (at);

-- Retracts a submit. True: it was carried out, so the job must be cancelled.
create function retract_submit(p_job text, p_account text) returns boolean language plpgsql as $$
begin
  -- Every submit holds this lock to its end. So this waits for a submit under way, and a later one finds the row.
  perform 1 from account_balances b where b.account_id = p_account for no key update;
  if exists (select 1 from jobs j where j.id = p_job) then return true; end if;
  insert into retracted_submits (job_id) values (p_job) on conflict do nothing;
  return false;
end $$;

create function refuse_retracted() returns trigger language plpgsql as $$
begin
  if exists (select 1 from retracted_submits r where r.job_id = new.id) then
    raise exception 'the submit of % was taken back', new.id using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end $$;
create trigger jobs_not_retracted before insert on jobs for each row execute function refuse_retracted();
