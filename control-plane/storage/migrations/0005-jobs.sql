-- Jobs, what they owe to other systems, and the two transactions that begin and end them.

create table jobs (
  -- Also the name of the RenderJob.
  id text primary key,
  account_id text not null references account_balances,
  capability text not null,
  -- {role: file key}
  inputs jsonb not null,
  parameters jsonb not null,
  callback_url text,
  status text not null default 'queued' check (status in ('queued', 'processing', 'succeeded', 'failed')),
  created_at timestamptz not null default now(),
  processing_at timestamptz,
  settled_at timestamptz,
  -- The quote: what was agreed at submit, whatever becomes of the rates.
  hold_id bigint not null unique references ledger_transfers,
  hold_micros bigint not null,
  rate_version bigint not null,
  unit text not null,
  rate_micros bigint not null,
  minimum_micros bigint not null,
  -- metadata.uid of the RenderJob, once created.
  renderjob_uid text,
  renderjob_at timestamptz,
  -- The outcome.
  charged_micros bigint check (charged_micros >= 0),
  milli_units bigint,
  output_key text,
  output_content_type text,
  output_size_bytes bigint,
  output_sha256 text,
  engine text,
  error_code text,
  error_message text,
  -- Of the usage entry: render_failed, timed_out, cancelled.
  reason text check (reason in ('render_failed', 'timed_out', 'cancelled')),
  constraint terminal_is_settled check (
    (status in ('succeeded', 'failed')) = (settled_at is not null) and (settled_at is null) = (charged_micros is null)),
  constraint success_has_output check (status <> 'succeeded' or (output_key is not null and error_code is null)),
  constraint failure_is_free check (
    (status = 'failed') = (error_code is not null) and (status <> 'failed' or (charged_micros = 0 and error_message is not null)))
) with (fillfactor = 70);
create index jobs_unsettled on jobs (account_id, id) where settled_at is null;
create index jobs_by_account on jobs (account_id, created_at, id);

create table idempotency_keys (
  account_id text not null references account_balances,
  key text not null,
  -- Of the canonical body.
  body_sha256 bytea not null,
  job_id text not null,
  created_at timestamptz not null default now(),
  primary key (account_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- What a committed transaction owes to the Kubernetes API (`renderjob`) and to the event stream (`event`). A row goes
-- when the debt is paid. The process that wrote it pays at once; `due_at` is when any other may take it over.
create table outbox (
  id bigint generated always as identity primary key,
  kind text not null check (kind in ('renderjob', 'event')),
  job_id text not null,
  -- Of an event: the status the job reached.
  status text,
  created_at timestamptz not null default now(),
  due_at timestamptz not null default now() + interval '2 seconds',
  attempts int not null default 0,
  last_error text
) with (fillfactor = 70);
create index outbox_due on outbox (kind, due_at);
create index outbox_by_job on outbox (job_id);

-- How many more jobs the platform takes. Close to the ceiling, admissions are made to wait for one another (until
-- their transaction ends); far from it, nobody waits. Those that began far from it are not waited for, so the ceiling
-- may be overstepped by what is under way at that moment: 64 for each control plane (2 batches of 32).
create function platform_room() returns int language plpgsql as $$
declare
  v_ceiling int := (select jobs_in_flight from settings);
  v_room int;
begin
  v_room := v_ceiling - (select count(*) from (select 1 from jobs where settled_at is null limit v_ceiling) n);
  if v_room < 64 then
    perform pg_advisory_xact_lock(7362652636266224);
    v_room := v_ceiling - (select count(*) from (select 1 from jobs where settled_at is null limit v_ceiling) n);
  end if;
  return v_room;
end $$;

create type submit_outcome as (
  -- accepted, replayed, or why not: conflict (the Idempotency-Key came with another body), capability_unavailable,
  -- unknown_input and wrong_kind (`detail`: the role), account_full, platform_full, insufficient_balance
  outcome text,
  job_id text,
  detail text,
  amount_micros bigint,
  renderjob_task bigint,
  event_task bigint
);

-- Admits one job: all of it or nothing. Refusals write nothing, so they roll nothing back and use up no key.
-- p_inputs: [{role, key, kind}]
create function submit_job(
  p_job text, p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_callback text,
  p_idempotency_key text, p_body_sha256 bytea, p_room int
) returns submit_outcome language plpgsql as $$
declare
  v_available bigint;
  v_ceiling int;
  v_key idempotency_keys;
  v_rates rates;
  v_rate bigint;
  v_hold bigint;
  v_hold_id bigint;
  v_role text;
  v_kind text;
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

  if not exists (select 1 from capabilities c where c.name = p_capability and c.switched_on and c.has_engine) then
    return row('capability_unavailable', null, null, null, null, null)::submit_outcome;
  end if;

  select i.role, u.kind into v_role, v_kind
    from jsonb_to_recordset(p_inputs) as i(role text, key text, kind text)
    left join uploads u on u.file_key = i.key and u.account_id = p_account and u.completed_at is not null
    where u.kind is distinct from i.kind
    order by i.role limit 1;
  if found then
    return row(case when v_kind is null then 'unknown_input' else 'wrong_kind' end, null, v_role, null, null, null)::submit_outcome;
  end if;

  if (select count(*) from (select 1 from jobs j where j.account_id = p_account and j.settled_at is null limit v_ceiling) n)
     >= v_ceiling then
    return row('account_full', null, v_ceiling::text, null, null, null)::submit_outcome;
  end if;
  if p_room <= 0 then return row('platform_full', null, null, null, null, null)::submit_outcome; end if;

  select * into strict v_rates from rates r
    where r.capability = p_capability and (r.account_id = p_account or r.account_id is null) and r.effective_at <= now()
    order by r.account_id is null, r.version desc limit 1;
  select (e.rate ->> 'rate_micros')::bigint into strict v_rate
    from jsonb_array_elements(v_rates.rates) with ordinality e(rate, n)
    where p_parameters @> (e.rate -> 'when') order by e.n limit 1;
  v_hold := greatest(v_rates.minimum_micros, price_of(v_rate, v_rates.hold_milli_units));
  if v_available < v_hold then
    return row('insufficient_balance', null, v_available::text, v_hold, null, null)::submit_outcome;
  end if;

  insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    values (p_account, 'hold', 'available', 'held', v_hold, p_job) returning id into v_hold_id;
  insert into jobs (id, account_id, capability, inputs, parameters, callback_url, hold_id, hold_micros, rate_version, unit,
                    rate_micros, minimum_micros)
    values (p_job, p_account, p_capability,
            (select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)),
            p_parameters, p_callback, v_hold_id, v_hold, v_rates.version, v_rates.unit, v_rate, v_rates.minimum_micros);
  insert into outbox (kind, job_id) values ('renderjob', p_job) returning id into v_renderjob_task;
  insert into outbox (kind, job_id, status) values ('event', p_job, 'queued') returning id into v_event_task;
  if p_idempotency_key is not null then
    insert into idempotency_keys (account_id, key, body_sha256, job_id)
      values (p_account, p_idempotency_key, p_body_sha256, p_job);
  end if;
  return row('accepted', p_job, null, v_hold, v_renderjob_task, v_event_task)::submit_outcome;
end $$;

-- Admits a batch in one transaction; rows are locked in the order of accounts, so that two batches cannot wait for
-- each other. p_requests: [{job, account, capability, inputs, parameters, callback, idempotency_key, body_sha256 (hex)}]
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

create type settle_outcome as (
  -- settled; already (it was before, as `status` says); fenced (the result is of another RenderJob); unknown (no such
  -- job); unbillable (the output is measured in another unit than the job is priced in, or is more than any work makes)
  outcome text,
  status text,
  charged_micros bigint,
  shortfall_micros bigint,
  event_task bigint
);

-- The most thousandths of a unit that one job can be charged for: 100 images, a day of seconds or minutes. What
-- measures more was measured wrongly.
create function most_milli_units(unit text) returns bigint language sql immutable strict as $$
  select case unit when 'image' then 100000 when 'second' then 86400000 when 'minute' then 1440000 end::bigint
$$;

-- Ends a job: resolves its hold, states the outcome and owes the event, once, whoever calls how often.
-- p_uid: the RenderJob that brought the outcome; one that is not the job's own has no say.
-- p_output: {key, content_type, size_bytes, sha256, engine, unit, milli_units} of a success, else null. p_at null: now.
-- Only `settled` has written anything.
create function settle_job(
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
  if p_output is not null and ((p_output ->> 'unit') is distinct from v_job.unit
      or v_units is null or v_units not between 0 and most_milli_units(v_job.unit)) then
    return row('unbillable', v_job.status, null, null, null)::settle_outcome;
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
  return row('settled', v_status, v_charge, greatest(v_charge - v_job.hold_micros, 0), v_task)::settle_outcome;
end $$;

-- A job's work has begun. Statuses only move forward: null when it is not queued any more.
create function begin_job(p_job text, p_uid text) returns bigint language sql as $$
  with begun as (
    update jobs j set status = 'processing', processing_at = now(),
                      renderjob_uid = coalesce(j.renderjob_uid, p_uid), renderjob_at = coalesce(j.renderjob_at, now())
    where j.id = p_job and j.status = 'queued' and (j.renderjob_uid is null or j.renderjob_uid = p_uid)
    returning j.id
  )
  insert into outbox (kind, job_id, status) select 'event', id, 'processing' from begun returning id
$$;

-- The books of one account, recomputed from the transfers alone and compared with everything stored beside them; and
-- the whole ledger's sum. One row for each thing that does not agree: no row, the books are right.
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
  ), checks(fault, expected, found) as (
    select 'available balance', available, (select available_micros::numeric from account_balances where account_id = p_account) from booked
    union all
    select 'held balance', held, (select held_micros from account_balances where account_id = p_account) from booked
    union all
    select 'spent balance', spent, (select spent_micros from account_balances where account_id = p_account) from booked
    union all
    select 'topped up balance', topped_up, (select topped_up_micros from account_balances where account_id = p_account) from booked
    union all
    select 'spend by day', spent, (select coalesce(sum(spent_micros), 0) from spend_days where account_id = p_account) from booked
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
