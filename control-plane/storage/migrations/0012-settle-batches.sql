-- Ends a batch of jobs in one transaction; see settle_job. First every job is locked, in the order of ids, then the
-- money of each moves in the order of accounts: no two of these, nor one and a settlement by itself, can wait for each
-- other.
-- p_requests: [{job, uid, output, error_code, error_message, reason, at}]
create function settle_jobs(p_requests jsonb) returns table (place bigint, result settle_outcome) language plpgsql as $$
declare
  v_request record;
begin
  perform 1 from jobs j where j.id in (select r ->> 'job' from jsonb_array_elements(p_requests) r)
    order by j.id for no key update;
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (job text, uid text, output jsonb, error_code text, error_message text,
                                         reason text, at timestamptz)
    ) with ordinality as q(job, uid, output, error_code, error_message, reason, at, place)
    left join jobs j on j.id = q.job
    order by j.account_id, q.place
  loop
    place := v_request.place;
    result := settle_job(v_request.job, v_request.uid, nullif(v_request.output, 'null'), v_request.error_code,
                         v_request.error_message, v_request.reason, v_request.at);
    return next;
  end loop;
end $$;
