-- compatible-from: 0012
-- Lists of jobs, metadata of submits, and outputs that are deleted earlier than the setting says.

alter table jobs
  -- {name: text}. Null: none was given.
  add column metadata jsonb,
  -- API key that submitted a job with a callback: links in the webhook end with it.
  add column key_id text,
  -- Seconds from the end of the job after which its output is deleted. Null: the setting alone counts.
  add column expires_in_seconds bigint check (expires_in_seconds > 0),
  -- Set with the end of the job, where it has `expires_in_seconds`.
  add column output_expires_at timestamptz;
create index jobs_outputs_by_expiry on jobs (output_expires_at) where output_key is not null and output_expires_at is not null;
create index jobs_by_capability on jobs (account_id, capability, created_at, id);
-- By `error_code`, which every failed job has. It changes with the end of the job alone; with `status` in an index, every
-- change of a status would be written to all indexes.
create index jobs_failed on jobs (account_id, created_at, id) where error_code is not null;

-- Each entry of the metadata of a job, by which it is found.
create table job_metadata (
  account_id text not null,
  -- SHA-256 of the name, a colon and the value. A name has no colon.
  entry_sha256 bytea not null,
  created_at timestamptz not null,
  job_id text not null references jobs,
  primary key (account_id, entry_sha256, created_at, job_id)
);

create function metadata_entry(p_name text, p_value text) returns bytea language sql immutable as $$
  select sha256(convert_to(p_name || ':' || p_value, 'UTF8'))
$$;

create function set_output_expiry() returns trigger language plpgsql as $$
begin
  new.output_expires_at := new.settled_at + new.expires_in_seconds * interval '1 second';
  return new;
end $$;
create trigger jobs_output_expiry before update on jobs
  for each row when (old.settled_at is null and new.settled_at is not null and new.expires_in_seconds is not null)
  execute function set_output_expiry();

-- Admits a batch, as in 0014, with metadata and the time after which outputs are deleted.
-- p_requests: as in 0014, and `metadata`, `expires_in_seconds` and `key_id`, which may be null or absent
create or replace function submit_jobs(p_requests jsonb) returns table (place bigint, result submit_outcome) language plpgsql as $$
declare
  v_room int := platform_room();
  v_request record;
  v_options jsonb;
  v_metadata jsonb;
begin
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (job text, account text, capability text, inputs jsonb, parameters jsonb,
                                         engine_options jsonb, callback text, idempotency_key text, body_sha256 text,
                                         metadata jsonb, expires_in_seconds bigint, key_id text)
    ) with ordinality as q(job, account, capability, inputs, parameters, engine_options, callback, idempotency_key,
                           body_sha256, metadata, expires_in_seconds, key_id, place)
    order by q.account, q.place
  loop
    place := v_request.place;
    result := submit_job(v_request.job, v_request.account, v_request.capability, v_request.inputs, v_request.parameters,
                         v_request.callback, v_request.idempotency_key, decode(v_request.body_sha256, 'hex'), v_room);
    if (result).outcome = 'accepted' then
      v_room := v_room - 1;
      v_options := case jsonb_typeof(v_request.engine_options) when 'object' then v_request.engine_options end;
      v_metadata := case jsonb_typeof(v_request.metadata) when 'object' then v_request.metadata end;
      if v_options is not null or v_metadata is not null or v_request.expires_in_seconds is not null
         or (v_request.key_id is not null and v_request.callback is not null) then
        update jobs set engine_options = v_options, metadata = v_metadata, expires_in_seconds = v_request.expires_in_seconds,
                        key_id = v_request.key_id
          where id = v_request.job;
      end if;
      if v_metadata is not null then
        insert into job_metadata (account_id, entry_sha256, created_at, job_id)
          select j.account_id, metadata_entry(e.key, e.value), j.created_at, j.id
          from jobs j, jsonb_each_text(v_metadata) e where j.id = v_request.job;
      end if;
    end if;
    return next;
  end loop;
end $$;

-- Returns jobs of an account made in [p_from, p_to), the newest first, after the job (p_after, p_after_id) in that order.
-- Parameters that are null restrict nothing. Only the conditions that are asked for are in the statement, so each has the
-- index that it needs. That must not depend on statistics: without sorting, the order leaves one index. Jobs that have not
-- ended are few, and are sorted.
create function list_jobs(
  p_account text, p_status text, p_capability text, p_entry bytea, p_from timestamptz, p_to timestamptz,
  p_after timestamptz, p_after_id text, p_limit int
) returns setof jobs language plpgsql stable
set enable_seqscan = off set enable_sort = off as $$
declare
  v_at text := case when p_entry is null then 'j.created_at' else 'm.created_at' end;
  v_id text := case when p_entry is null then 'j.id' else 'm.job_id' end;
  -- Where the statement begins to read: before a moment, or after a job.
  v_after boolean := p_after < coalesce(p_to, 'infinity');
  v_top timestamptz := case when v_after then p_after else coalesce(p_to, 'infinity') end;
  v_top_id text := case when v_after then p_after_id else '' end;
begin
  return query execute concat(
    'select j.* from ',
    case when p_entry is null and p_status in ('queued', 'processing')
           then '(select * from jobs where account_id = $1 and settled_at is null offset 0) j where '
         when p_entry is null then 'jobs j where '
         else 'job_metadata m join jobs j on j.id = m.job_id where m.account_id = $1 and m.entry_sha256 = $4 and ' end,
    'j.account_id = $1 and ',
    case when p_status is not null then 'j.status = $2 and ' end,
    case when p_status = 'failed' then 'j.error_code is not null and ' end,
    -- The order by capability, of which there is one, leaves the planner no other index than that of capabilities.
    case when p_capability is null or p_entry is not null then
           concat(case when p_capability is not null then 'j.capability = $3 and ' end,
                  v_at, ' >= $5 and (', v_at, ', ', v_id, ') < ($6, $7) order by ', v_at, ' desc, ', v_id, ' desc')
         else 'j.created_at >= $5 and j.capability >= $3 and (j.capability, j.created_at, j.id) < ($3, $6, $7)
               order by j.capability desc, j.created_at desc, j.id desc' end,
    ' limit $8')
  using p_account, p_status, p_capability, p_entry, coalesce(p_from, '-infinity'), v_top, v_top_id, p_limit;
end $$;
