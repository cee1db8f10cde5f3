-- compatible-from: 0012
-- Pictures that move stand in the place of videos, and uploads go on after a break.

alter table uploads add column animated boolean not null default false;

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
    where u.kind is distinct from i.kind and not (i.kind = 'video' and coalesce(u.animated, false))
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

-- Time after its last byte for which an unfinished resumable upload is kept, and the most of them of one account.
alter table settings
  add column resumable_upload_seconds int not null default 86400
    check (resumable_upload_seconds between 60 and 604800),
  add column max_resumable_uploads int not null default 20 check (max_resumable_uploads between 0 and 1000);

-- Uploads that may go on after a break. Their bytes are in parts until the upload is complete.
create table resumable_uploads (
  file_key text primary key references uploads on delete cascade,
  -- As the client stated: the type and name of the file, and its length once that is known.
  declared_type text,
  filename text not null default '',
  length bigint check (length >= 0),
  -- Most bytes of the largest kind of file; of its own kind, once that is known.
  max_bytes bigint not null,
  -- Bytes in recorded parts. It never decreases.
  stored_bytes bigint not null default 0 check (stored_bytes >= 0),
  parts int not null default 0,
  -- Fence: each request that reads or continues the upload takes the next number, and only the latest may record.
  writer bigint not null default 0,
  expires_at timestamptz not null,
  check (length is null or stored_bytes <= length),
  check (stored_bytes <= max_bytes)
);
create index resumable_uploads_by_expiry on resumable_uploads (expires_at);

-- Objects with a part each. They outlive the row of their upload until their objects are gone.
create table upload_parts (
  object_key text primary key,
  file_key text not null,
  start_byte bigint not null,
  size_bytes bigint not null check (size_bytes > 0),
  unique (file_key, start_byte)
);

-- As before, with what is known of a picture that moves, and for a resumable upload only by its latest request.
-- p_writer: number of that request; null: the upload is none.
drop function complete_upload(text, text, text, text, bigint, bytea);
create function complete_upload(
  p_key text, p_account text, p_kind text, p_content_type text, p_size bigint, p_sha256 bytea, p_animated boolean,
  p_writer bigint
) returns upload_outcome language plpgsql as $$
declare
  v_upload uploads;
  v_room upload_room;
begin
  select * into v_upload from uploads u
    where u.file_key = p_key and u.account_id = p_account and u.abandoned_at is null
      and (u.completed_at is null or (u.kind = p_kind and u.sha256 = p_sha256))
      and (p_writer is null or u.completed_at is not null or exists (
        select 1 from resumable_uploads r where r.file_key = u.file_key and r.writer = p_writer))
    for no key update;
  if not found then return row('unknown', null, null, null, null)::upload_outcome; end if;
  if v_upload.completed_at is null then
    perform lock_account_uploads(p_account);
    v_room := upload_room_of(p_account, false);
    if v_room.room_bytes < p_size then return refused_upload(v_room); end if;
    update uploads u set completed_at = now(), kind = p_kind, content_type = p_content_type, size_bytes = p_size,
                         sha256 = p_sha256, animated = p_animated
      where u.file_key = p_key;
  end if;
  return row('complete', null, null, null, (select s.link_seconds from settings s))::upload_outcome;
end $$;
