-- One quote for a submit and for its estimate; and the id of a block that another account has.

-- The checks and the price of a job that would be submitted now: what a submit holds, and what an estimate tells.
-- p_available: what a hold may take; the caller has read it, a submit under the lock of the account.
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
    where r.capability = p_capability and (r.account_id = p_account or r.account_id is null) and r.effective_at <= now()
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

-- What a submit would hold or be refused for, without its locks, ceilings and writes.
create or replace function quote_job(p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb)
returns job_quote language plpgsql stable as $$
declare
  v_available bigint;
begin
  select b.available_micros - b.reserved_micros into strict v_available from account_balances b where b.account_id = p_account;
  return quote_with(p_account, p_capability, p_inputs, p_parameters, v_available);
end $$;

-- Admits one job: all of it or nothing. Refusals write nothing, so they roll nothing back and use up no key.
-- p_inputs: [{role, key, kind}]
create or replace function submit_job(
  p_job text, p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_callback text,
  p_idempotency_key text, p_body_sha256 bytea, p_room int
) returns submit_outcome language plpgsql as $$
declare
  v_available bigint;
  v_ceiling int;
  v_key idempotency_keys;
  v_quote job_quote;
  v_hold_id bigint;
  v_renderjob_task bigint;
  v_event_task bigint;
begin
  -- The row lock makes everything that decides about this account's money, ceiling and keys happen one by one.
  select b.available_micros - b.reserved_micros, coalesce(a.jobs_in_flight_limit, s.jobs_in_flight_per_account)
    into strict v_available, v_ceiling
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

  if (select count(*) from (select 1 from jobs j where j.account_id = p_account and j.settled_at is null limit v_ceiling) n)
     >= v_ceiling then
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

-- Sets a block aside for as long as it is open. Said again it changes nothing.
create or replace function reserve_block(p_id text, p_account text, p_amount bigint) returns reserve_outcome language plpgsql as $$
declare
  v_available bigint;
  v_before reservations;
begin
  select b.available_micros - b.reserved_micros into strict v_available
    from account_balances b where b.account_id = p_account for no key update;
  select * into v_before from reservations r where r.id = p_id;
  if not found then
    if v_available < p_amount then return row('insufficient_balance', v_available)::reserve_outcome; end if;
    -- The lock is on the account: another one may take the id between the look and the write.
    insert into reservations (id, account_id, amount_micros) values (p_id, p_account, p_amount) on conflict (id) do nothing;
    if found then return row('reserved', v_available)::reserve_outcome; end if;
    select * into strict v_before from reservations r where r.id = p_id;
  end if;
  return row(case when (v_before.account_id, v_before.amount_micros) = (p_account, p_amount) then 'already' else 'conflict' end,
             v_available)::reserve_outcome;
end $$;
