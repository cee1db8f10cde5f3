-- compatible-from: 0016
-- A clock of the database that is set back keeps no rate from counting and nothing that is owed waiting; report settings
-- that are lowered end no live session that was told the former ones.

-- Other control planes go on while this is done, and a backup keeps the table for as long as it takes: rather than have
-- calls queue behind this one, the lock is given back after a moment and asked for again, as in 0017.
do $$
declare
  v_before text := current_setting('lock_timeout');
begin
  perform set_config('lock_timeout', '200ms', true);
  loop
    begin
      lock table sessions in access exclusive mode;
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
  perform set_config('lock_timeout', v_before, true);
end $$;

-- The silence that ended a session when its gateway was told how often to report: it goes on reporting so. Null: nobody
-- has connected, or did so at a release that did not note it.
alter table sessions add column report_timeout_seconds int;

-- As before (0020), except that a session has the longer of the silence it was connected with and the present one.
create or replace function expire_sessions(p_heard_seconds float8, p_at timestamptz, p_latest timestamptz, p_unset_seconds float8)
returns table (session text, result end_outcome) language plpgsql set enable_seqscan = off as $$
declare
  v_due record;
  v_now timestamptz := least(now(), p_latest);
  v_unset float8 := coalesce(p_unset_seconds, 'infinity');
  -- Statements that began after this one may have been written already.
  v_soon timestamptz := now() + interval '2 seconds';
begin
  -- What is still to come was written before the clock was set back, and begins now.
  update sessions s set
      asked_at = case s.state when 'opening' then now() else s.asked_at end,
      connect_by = case s.state when 'open' then now() + s.connect_seconds * interval '1 second' else s.connect_by end,
      reported_at = case s.state when 'connected' then now() else s.reported_at end
    where s.id = any(array(
      select d.id from sessions d
      where d.ended_at is null and (
        (d.state = 'opening' and d.asked_at > v_soon)
        or (d.state = 'open' and d.connect_by > v_soon + d.connect_seconds * interval '1 second')
        or (d.state = 'connected' and d.reported_at > v_soon))
      order by d.id limit 1000 for no key update of d skip locked));
  for v_due in
    select s.id, s.state from sessions s
    where s.id = any(array(
      select d.id from sessions d cross join settings t
        cross join lateral (select greatest(d.report_timeout_seconds, t.session_report_timeout_seconds) as silence) k
      where d.ended_at is null and (
        (d.state = 'opening' and v_unset >= 30 and d.asked_at < v_now - interval '30 seconds')
        or (d.state = 'open' and v_unset >= d.connect_seconds and d.connect_by < v_now)
        or (d.state = 'connected' and p_heard_seconds >= k.silence
            and d.reported_at < v_now - k.silence * interval '1 second'))
      order by d.id limit 200 for no key update of d skip locked))
    order by s.account_id, s.id
  loop
    session := v_due.id;
    if v_due.state = 'opening' then
      perform refuse_session(v_due.id);
      result := row('opening', null, null, null, 0, 0)::end_outcome;
    else
      result := settle_session(v_due.id, case v_due.state when 'connected' then 'timed_out' else 'no_stream' end, p_at);
    end if;
    return next;
  end loop;
end $$;

-- As before (0013), except that the newest version of the rates counts whatever the clock says: rates are set to hold at
-- once, and a clock that is behind the moment they were set at would bring back those before them, or leave none.
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

-- What is owed, and due further ahead than any lease or pause puts it, was written before the clock was set back: it is due
-- now. Else it would wait until the clock is there again. A little more than the longest is allowed for, because what a
-- statement writes by its clock is read by one that began before it. What is paid twice so is harmless.
create function bring_forward() returns void language plpgsql set enable_seqscan = off as $$
begin
  -- Debts are claimed for 10 s, and put off by 3 s at most.
  update outbox set due_at = now()
    where id = any(array(
      select o.id from outbox o
      where o.kind in ('renderjob', 'event') and o.due_at > now() + interval '1 minute'
      limit 1000 for no key update skip locked));
  -- Webhooks wait eleven minutes before their last attempt. One that is being tried may be until its lease of 30 s is over.
  update deliveries set
      due_at = case when due_at > now() + interval '15 minutes' then now() else due_at end,
      leased_until = case when leased_until > now() + interval '2 minutes' then now() + interval '30 seconds' else leased_until end
    where id = any(array(
      select d.id from deliveries d
      where d.state = 'pending'
        and (d.due_at > now() + interval '15 minutes' or d.leased_until > now() + interval '2 minutes')
      limit 1000 for no key update skip locked));
  -- Removals of files are put off by an hour at most.
  update media_removals set due_at = now()
    where object_key = any(array(
      select m.object_key from media_removals m
      where m.due_at > now() + interval '61 minutes'
      limit 1000 for no key update skip locked));
end $$;
