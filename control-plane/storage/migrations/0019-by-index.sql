-- compatible-from: 0016
-- What is done to one job or session costs the same however many there are.
--
-- To the planner, functions that return rows return a hundred or a thousand of them, and reading all jobs there ever were
-- looks cheaper than looking up a hundred, up to tens of thousands of jobs. A plan made while the tables were empty is
-- kept besides, until statistics are gathered. So rows are looked up one by one, in a loop or a subquery.

-- Records debts that were paid, and the uids of the RenderJobs that some of them made. A uid noted before stays. Jobs are
-- locked in the order of ids, as settlements lock them: the two never wait for each other in a circle.
create function record_payments(p_debts bigint[], p_jobs text[], p_uids text[]) returns void
language plpgsql set enable_seqscan = off as $$
declare
  v_made record;
begin
  delete from outbox where id = any(p_debts);
  for v_made in select q.job, q.uid from unnest(p_jobs, p_uids) as q(job, uid) order by q.job loop
    update jobs set renderjob_uid = v_made.uid, renderjob_at = now() where id = v_made.job and renderjob_uid is null;
  end loop;
end $$;

-- As before (0012), by lookups.
create or replace function settle_jobs(p_requests jsonb) returns table (place bigint, result settle_outcome)
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
                                         reason text, at timestamptz)
    ) with ordinality as q(job, uid, output, error_code, error_message, reason, at, place)
    order by (select j.account_id from jobs j where j.id = q.job), q.place
  loop
    place := v_request.place;
    result := settle_job(v_request.job, v_request.uid, nullif(v_request.output, 'null'), v_request.error_code,
                         v_request.error_message, v_request.reason, v_request.at);
    return next;
  end loop;
end $$;

-- As before (0015), by lookups.
create or replace function report_sessions(p_reports jsonb, p_at timestamptz)
returns table (place bigint, session text, is_over boolean, over_reason text, result end_outcome) language plpgsql as $$
declare
  v_id text;
  v_report record;
  v_session sessions;
begin
  for v_id in select e ->> 'session' from jsonb_array_elements(p_reports) e order by 1 loop
    perform 1 from sessions s where s.id = v_id for no key update;
  end loop;
  for v_report in
    select q.* from rows from (
      jsonb_to_recordset(p_reports) as (session text, connection text, streamed_ms bigint, ended boolean, reason text)
    ) with ordinality as q(session, connection, streamed_ms, ended, reason, place)
    order by (select s.account_id from sessions s where s.id = q.session), q.place
  loop
    place := v_report.place;
    session := v_report.session;
    is_over := true;
    over_reason := null;
    result := null;
    select * into v_session from sessions s where s.id = v_report.session;
    if found and v_session.connection_id = v_report.connection then
      if v_session.ended_at is not null then
        over_reason := v_session.reason;
      else
        update sessions s set reported_at = now(),
            streamed_ms = greatest(s.streamed_ms, least(coalesce(v_report.streamed_ms, 0), s.max_seconds * 1000::bigint))
          where s.id = v_report.session;
        is_over := v_report.ended;
        if v_report.ended then
          result := settle_session(v_report.session, v_report.reason, p_at);
          over_reason := (result).reason;
        end if;
      end if;
    end if;
    return next;
  end loop;
end $$;

-- As before (0015), by lookups.
create or replace function lock_sessions(p_ids text[]) returns void language plpgsql as $$
declare
  v_id text;
begin
  for v_id in select i from unnest(p_ids) i order by 1 loop
    perform 1 from sessions s where s.id = v_id for no key update;
  end loop;
  for v_id in select distinct (select s.account_id from sessions s where s.id = i) from unnest(p_ids) i order by 1 loop
    perform 1 from account_balances b where b.account_id = v_id for no key update;
  end loop;
end $$;
