-- compatible-from: 0012
-- The rate of a video follows the size of its frames, as measured on the output. Rates can be agreed for later, and an
-- account's own ones can be withdrawn.

alter table jobs
  -- Size of the output's frames in pixels; null: a picture, or an agent that did not measure it.
  add column output_width int,
  add column output_height int,
  -- Rate of the charge: that of the output's size, at most the one of the quote. Null: not charged, or before this column.
  add column charged_rate_micros bigint;

-- Returns the sizes in which a capability is priced, from small to large: the value of the parameter by which the rate
-- card and a submit name a size, and the longest side that it covers: the shorter one of the output, or, where
-- `by_longer` is true, the longer one. `is_default` marks the value that counts when a submit leaves the parameter out.
create function sizes_of(p_capability text)
returns table (parameter text, value text, up_to int, by_longer boolean, is_default boolean) language sql immutable as $$
  select 'output_resolution_p', s.side::text, s.side, false, p_capability = 'avatar' and s.side = 720
    from unnest(array[480, 720, 1080]) s(side) where p_capability in ('face-swap', 'avatar', 'lip-sync')
  union all
  select 'resolution', s.value, s.up_to, true, s.value = '1k'
    from (values ('1k', 1024), ('2k', 2048)) s(value, up_to) where p_capability = 'character-swap'
$$;

-- Returns the sizes that an output can be charged by: not larger than what the submit asks for.
create function possible_sizes(p_capability text, p_parameters jsonb)
returns table (parameter text, value text, up_to int, by_longer boolean) language sql immutable as $$
  select s.parameter, s.value, s.up_to, s.by_longer from sizes_of(p_capability) s
  where s.up_to <= coalesce(
    (select a.up_to from sizes_of(p_capability) a
       where a.value = p_parameters ->> a.parameter or (a.is_default and not p_parameters ? a.parameter)),
    (select max(m.up_to) from sizes_of(p_capability) m))
$$;

-- Returns the parameters of a job with the size of its output in place of the one that was asked for: the smallest that
-- covers the frames, or the largest possible when none does. Without a measured size they are as they were.
create function parameters_by_output(p_capability text, p_parameters jsonb, p_width int, p_height int)
returns jsonb language sql immutable as $$
  select p_parameters || coalesce((
    select jsonb_build_object(s.parameter, s.value)
    from possible_sizes(p_capability, p_parameters) s
    cross join lateral (
      select case when s.by_longer then greatest(p_width, p_height) else least(p_width, p_height) end as pixels
    ) side
    where p_width is not null and p_height is not null
    order by side.pixels > s.up_to, abs(side.pixels - s.up_to) limit 1), '{}')
$$;

-- Returns the rate of a row's `rates` that fits the parameters: the first whose `when` they contain.
create function rate_for(p_rates jsonb, p_parameters jsonb) returns bigint language sql immutable strict as $$
  select (e.rate ->> 'rate_micros')::bigint from jsonb_array_elements(p_rates) with ordinality e(rate, n)
    where p_parameters @> (e.rate -> 'when') order by e.n limit 1
$$;

-- A version that ends an account's own rates: from then on the public ones count for it. Its rates are a copy of the
-- public ones of that moment, for releases that do not know the column.
alter table rates add column withdrawn boolean not null default false check (not withdrawn or account_id is not null);

-- Rates agreed for a later moment. `start_rates` makes a version of `rates` of them when it has come.
create table rates_to_come (
  id bigint generated always as identity primary key,
  capability text not null references capabilities,
  account_id text references accounts,
  unit text not null,
  rates jsonb not null,
  minimum_micros bigint not null check (minimum_micros >= 0),
  hold_milli_units bigint not null check (hold_milli_units > 0),
  starts_at timestamptz not null,
  created_at timestamptz not null default now(),
  constraint a_rate_for_everything check (jsonb_array_length(rates) > 0 and (rates -> -1 -> 'when') = '{}'::jsonb)
);
create index rates_to_come_by_start on rates_to_come (starts_at);

-- Makes versions of the agreed rates whose moment has come, in the order of their moments; returns the new versions.
create function start_rates() returns setof bigint language sql as $$
  with due as (delete from rates_to_come where starts_at <= now() returning *)
  insert into rates (capability, account_id, unit, rates, minimum_micros, hold_milli_units)
  select capability, account_id, unit, rates, minimum_micros, hold_milli_units from due order by starts_at, id
  returning version
$$;

-- Returns the rates that count for an account now: its own newest ones, unless they are withdrawn, otherwise the newest
-- public ones. p_account null: the public ones.
create function rates_in_force(p_capability text, p_account text) returns setof rates language sql stable as $$
  select r.* from (
    (select * from rates o where o.capability = p_capability and o.account_id = p_account order by o.version desc limit 1)
    union all
    (select * from rates p where p.capability = p_capability and p.account_id is null order by p.version desc limit 1)
  ) r where not r.withdrawn order by r.account_id is null limit 1
$$;

-- Checks and prices a job that would be submitted now. Submits and estimates both use it.
-- The rate is the highest that the output can be charged by, since its size is known only when it is made.
-- p_available: amount that a hold may take; the caller has read it, a submit under the lock of the account.
-- p_inputs: [{role, key, kind}]
create or replace function quote_with(
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
  select * into strict v_rates from rates_in_force(p_capability, p_account);
  select coalesce(max(rate_for(v_rates.rates, p_parameters || jsonb_build_object(s.parameter, s.value))),
                  rate_for(v_rates.rates, p_parameters))
    into strict v_quote.rate_micros from possible_sizes(p_capability, p_parameters) s;
  v_quote.outcome := 'quoted';
  v_quote.hold_micros := greatest(v_rates.minimum_micros, price_of(v_quote.rate_micros, v_rates.hold_milli_units));
  v_quote.minimum_micros := v_rates.minimum_micros;
  v_quote.unit := v_rates.unit;
  v_quote.rate_version := v_rates.version;
  v_quote.available_micros := p_available;
  return v_quote;
end $$;

-- Ends a job once, however often it is called: resolves its hold, records the outcome and owes the event.
-- A job that its owner cancelled ends as cancelled, whatever the outcome.
-- p_uid: RenderJob that brought the outcome; one that is not the job's own is fenced.
-- p_output: {key, content_type, size_bytes, sha256, engine, unit, milli_units, width, height} of a success, otherwise null.
-- p_at null: now.
-- p_findings: {faces, hints} of the inputs; null: nothing was found out.
-- Only with the outcome `settled` was anything written.
create or replace function settle_job(
  p_job text, p_uid text, p_output jsonb, p_error_code text, p_error_message text, p_reason text, p_at timestamptz,
  p_findings jsonb default null
) returns settle_outcome language plpgsql as $$
declare
  v_job jobs;
  v_units bigint := (p_output ->> 'milli_units')::bigint;
  v_rate bigint;
  v_charge bigint := 0;
  v_status text;
  v_task bigint;
  v_at timestamptz := coalesce(p_at, now());
begin
  select * into v_job from jobs j where j.id = p_job for no key update;
  if not found then return row('unknown', null, null, null, null, null)::settle_outcome; end if;
  if v_job.settled_at is not null then
    return row('already', v_job.status, v_job.charged_micros, null, null, v_job.reason)::settle_outcome;
  end if;
  if p_uid is not null and v_job.renderjob_uid is not null and v_job.renderjob_uid <> p_uid then
    return row('fenced', v_job.status, null, null, null, null)::settle_outcome;
  end if;
  if v_job.cancel_requested_at is not null then
    p_output := null;
    v_units := null;
    p_error_code := 'processing_failed';
    p_error_message := 'The job was cancelled.';
    p_reason := 'cancelled';
    p_findings := null;
  end if;
  if p_output is not null and ((p_output ->> 'unit') is distinct from v_job.unit
      or v_units is null or v_units not between 0 and most_milli_units(v_job.unit)) then
    return row('unbillable', v_job.status, null, null, null, null)::settle_outcome;
  end if;

  if p_output is null then
    v_status := 'failed';
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, hold_id, job_id, created_at)
      values (v_job.account_id, 'release', 'held', 'available', v_job.hold_micros, v_job.hold_id, p_job, v_at);
  else
    v_status := 'succeeded';
    -- A job from before this function was quoted by the size that it asked for, and never pays more.
    select least(v_job.rate_micros, rate_for(r.rates, parameters_by_output(
             v_job.capability, v_job.parameters, (p_output ->> 'width')::int, (p_output ->> 'height')::int)))
      into strict v_rate from rates r where r.version = v_job.rate_version;
    v_charge := greatest(v_job.minimum_micros, price_of(v_rate, v_units));
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
    charged_rate_micros = v_rate, output_width = (p_output ->> 'width')::int, output_height = (p_output ->> 'height')::int,
    milli_units = v_units, output_key = p_output ->> 'key', output_content_type = p_output ->> 'content_type',
    output_size_bytes = (p_output ->> 'size_bytes')::bigint, output_sha256 = p_output ->> 'sha256',
    engine = p_output ->> 'engine', findings = p_findings, error_code = p_error_code, error_message = p_error_message,
    reason = p_reason
  where j.id = p_job;
  insert into outbox (kind, job_id, status) values ('event', p_job, v_status) returning id into v_task;
  return row('settled', v_status, v_charge, greatest(v_charge - v_job.hold_micros, 0), v_task, p_reason)::settle_outcome;
end $$;
