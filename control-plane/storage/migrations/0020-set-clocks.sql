-- compatible-from: 0016
-- A clock of the database that is set, forwards or back, ends no live session that goes on, and keeps none that does not.

-- Ends what nobody will end any more: an opening whose process is gone, one that nobody connected to, one that no gateway
-- speaks of.
-- p_heard_seconds: for how long reports could have been taken in without a gap; silence before that says nothing.
-- p_latest: what the clock can show at most unless it was set forwards; whatever it shows, it is not later. Null: not known.
-- p_unset_seconds: how long ago the clock was set forwards. Until as much time has passed as each has, nothing that waits
-- is late: what was written before cannot be compared with the clock. Null: never.
create function expire_sessions(p_heard_seconds float8, p_at timestamptz, p_latest timestamptz, p_unset_seconds float8)
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
      where d.ended_at is null and (
        (d.state = 'opening' and v_unset >= 30 and d.asked_at < v_now - interval '30 seconds')
        or (d.state = 'open' and v_unset >= d.connect_seconds and d.connect_by < v_now)
        or (d.state = 'connected' and p_heard_seconds >= t.session_report_timeout_seconds
            and d.reported_at < v_now - t.session_report_timeout_seconds * interval '1 second'))
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

-- As processes call it that do not watch the clock.
create or replace function expire_sessions(p_heard_seconds float8, p_at timestamptz)
returns table (session text, result end_outcome) language sql as $$
  select session, result from expire_sessions(p_heard_seconds, p_at, null, null)
$$;
