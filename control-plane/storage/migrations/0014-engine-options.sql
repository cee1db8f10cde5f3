-- compatible-from: 0012
-- Options of engines that callers may give (`engine_options` of a submit).

-- Those that all agents with the capability let through when agents with it were last seen: [EngineOption], as in
-- packages/engine-api/option.ts. Null: none were ever seen.
alter table capabilities add column engine_options jsonb;

-- {name: value as text}. Null: none were given.
alter table jobs add column engine_options jsonb;

-- Admits a batch, as in 0006, with the options of each job.
-- p_requests: as in 0006, and `engine_options`, which may be null or absent
create or replace function submit_jobs(p_requests jsonb) returns table (place bigint, result submit_outcome) language plpgsql as $$
declare
  v_room int := platform_room();
  v_request record;
begin
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (job text, account text, capability text, inputs jsonb, parameters jsonb,
                                         engine_options jsonb, callback text, idempotency_key text, body_sha256 text)
    ) with ordinality as q(job, account, capability, inputs, parameters, engine_options, callback, idempotency_key,
                           body_sha256, place)
    order by q.account, q.place
  loop
    place := v_request.place;
    result := submit_job(v_request.job, v_request.account, v_request.capability, v_request.inputs, v_request.parameters,
                         v_request.callback, v_request.idempotency_key, decode(v_request.body_sha256, 'hex'), v_room);
    if (result).outcome = 'accepted' then
      v_room := v_room - 1;
      if jsonb_typeof(v_request.engine_options) = 'object' then
        update jobs set engine_options = v_request.engine_options where id = v_request.job;
      end if;
    end if;
    return next;
  end loop;
end $$;
