-- How a job continues and ends: its work begins, it is cancelled, and one transaction settles it.

-- Records that a job's work has begun. Statuses only move forward: null when the job is not queued any more, or was
-- cancelled. Otherwise it returns the debt of the event.
create function begin_job(p_job text, p_uid text) returns bigint language sql as $$
  with begun as (
    update jobs j set status = 'processing', processing_at = now(),
                      renderjob_uid = coalesce(j.renderjob_uid, p_uid), renderjob_at = coalesce(j.renderjob_at, now())
    where j.id = p_job and j.status = 'queued' and j.cancel_requested_at is null
      and (j.renderjob_uid is null or j.renderjob_uid = p_uid)
    returning j.id
  )
  insert into outbox (kind, job_id, status) select 'event', id, 'processing' from begun returning id
$$;

create type settle_outcome as (
  -- settled; already (earlier, with `status`); fenced (the result belongs to another RenderJob); unknown (no such job);
  -- unbillable (the output is measured in another unit than that of the price, or is more than any work makes)
  outcome text,
  status text,
  charged_micros bigint,
  shortfall_micros bigint,
  event_task bigint,
  -- Reason recorded with a settlement; null: none.
  reason text
);

-- Returns the most units × 1000 that one job can be charged for: 100 images, or a day of seconds or minutes. A larger
-- measurement is wrong.
create function most_milli_units(unit text) returns bigint language sql immutable strict as $$
  select case unit when 'image' then 100000 when 'second' then 86400000 when 'minute' then 1440000 end::bigint
$$;

-- Ends a job once, however often it is called: resolves its hold, records the outcome and owes the event.
-- A job that its owner cancelled ends as cancelled, whatever the outcome.
-- p_uid: RenderJob that brought the outcome; one that is not the job's own is fenced.
-- p_output: {key, content_type, size_bytes, sha256, engine, unit, milli_units} of a success, otherwise null.
-- p_at null: now.
-- p_findings: {faces, hints} of the inputs; null: nothing was found out.
-- Only with the outcome `settled` was anything written.
create function settle_job(
  p_job text, p_uid text, p_output jsonb, p_error_code text, p_error_message text, p_reason text, p_at timestamptz,
  p_findings jsonb default null
) returns settle_outcome language plpgsql as $$
declare
  v_job jobs;
  v_units bigint := (p_output ->> 'milli_units')::bigint;
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
    engine = p_output ->> 'engine', findings = p_findings, error_code = p_error_code, error_message = p_error_message,
    reason = p_reason
  where j.id = p_job;
  insert into outbox (kind, job_id, status) values ('event', p_job, v_status) returning id into v_task;
  return row('settled', v_status, v_charge, greatest(v_charge - v_job.hold_micros, 0), v_task, p_reason)::settle_outcome;
end $$;

-- Ends a batch of jobs in one transaction; see settle_job. First all jobs are locked in the order of ids, then the
-- money of each moves in the order of accounts. So neither two batches, nor a batch and a single settlement, can
-- deadlock.
-- p_requests: [{job, uid, output, error_code, error_message, reason, findings, at}]
create function settle_jobs(p_requests jsonb) returns table (place bigint, result settle_outcome)
language plpgsql as $$
declare
  v_id text;
  v_request record;
begin
  for v_id in select r ->> 'job' from jsonb_array_elements(p_requests) r order by 1 loop
    perform 1 from jobs j where j.id = v_id for no key update;
  end loop;
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (job text, uid text, output jsonb, error_code text, error_message text,
                                         reason text, findings jsonb, at timestamptz)
    ) with ordinality as q(job, uid, output, error_code, error_message, reason, findings, at, place)
    order by (select j.account_id from jobs j where j.id = q.job), q.place
  loop
    place := v_request.place;
    result := settle_job(v_request.job, v_request.uid, nullif(v_request.output, 'null'), v_request.error_code,
                         v_request.error_message, v_request.reason, v_request.at, nullif(v_request.findings, 'null'));
    return next;
  end loop;
end $$;

create type cancel_outcome as (
  -- unknown (no such job of this account), ended (before this call), repeated (cancelled before, not yet ended),
  -- requested (its work must be stopped; the job ends when that is proven), cancelled (ended by this call)
  outcome text,
  capability text,
  -- Debts of removing the RenderJob, and of the event of its end.
  renderjob_task bigint,
  event_task bigint
);

-- Records that a job is cancelled. A queued job without a recorded RenderJob ends at once. Otherwise the RenderJob must
-- be deleted, and the job ends when it is gone. The removal is owed in both cases, because a creation may be under way.
create function cancel_job(p_job text, p_account text) returns cancel_outcome language plpgsql as $$
declare
  v_job jobs;
  v_renderjob_task bigint;
  v_event_task bigint;
begin
  select * into v_job from jobs j where j.id = p_job and j.account_id = p_account for no key update;
  if not found then return row('unknown', null, null, null)::cancel_outcome; end if;
  if v_job.settled_at is not null then return row('ended', v_job.capability, null, null)::cancel_outcome; end if;
  if v_job.cancel_requested_at is not null then
    return row('repeated', v_job.capability, null, null)::cancel_outcome;
  end if;
  update jobs j set cancel_requested_at = clock_timestamp() where j.id = p_job;
  insert into outbox (kind, job_id) values ('renderjob', p_job) returning id into v_renderjob_task;
  if v_job.status = 'queued' and v_job.renderjob_uid is null then
    v_event_task := (settle_job(p_job, null, null, null, null, null, null)).event_task;
    return row('cancelled', v_job.capability, v_renderjob_task, v_event_task)::cancel_outcome;
  end if;
  return row('requested', v_job.capability, v_renderjob_task, null)::cancel_outcome;
end $$;
