-- compatible-from: 0012
-- Limits of what an account may have without paying for it: stored uploads, slots of sessions to which nobody connects,
-- and renders that end without a charge.

-- A megabyte is 10^6 bytes. Null: no limit.
alter table settings
  -- Uploads of an account that are stored, with those under way.
  add column stored_mb_per_account int default 20000 check (stored_mb_per_account >= 0),
  -- Uploads that an account without money stores in a day (UTC), also those that it deletes again.
  add column daily_mb_without_money int default 1000 check (daily_mb_without_money >= 0),
  -- Slot-seconds of the last hour in renders of an account that failed on their inputs, took too long, or were cancelled.
  add column failed_slot_seconds_per_hour int default 900 check (failed_slot_seconds_per_hour >= 0),
  -- Longest pause before the next session of an account whose last ones had no stream; 0: none.
  add column session_longest_pause_seconds int not null default 900 check (session_longest_pause_seconds between 0 and 86400);
alter table settings alter column session_connect_seconds set default 15;
update settings set session_connect_seconds = 15 where session_connect_seconds = 60;

-- Null: the platform's setting.
alter table accounts
  add column stored_mb_limit int check (stored_mb_limit >= 0),
  add column daily_mb_limit int check (daily_mb_limit >= 0),
  add column failed_slot_seconds_limit int check (failed_slot_seconds_limit >= 0);

-- Most bytes that the file may turn out to have; they count against the limits while the upload is under way.
alter table uploads add column reserved_bytes bigint not null default 0 check (reserved_bytes >= 0);

-- Bytes of each account's uploads. Only the triggers on `uploads` change them, so those of earlier releases count too.
create table account_uploads (
  account_id text primary key references accounts,
  stored_bytes bigint not null default 0,
  reserved_bytes bigint not null default 0,
  -- The day (UTC) whose stored uploads `day_bytes` are, the deleted ones too.
  day date not null default '2000-01-01',
  day_bytes bigint not null default 0
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

create function today_utc() returns date language sql stable as $$ select (now() at time zone 'UTC')::date $$;

create function count_upload_bytes(p_account text, p_stored bigint, p_reserved bigint) returns void language sql as $$
  insert into account_uploads as a (account_id, stored_bytes, reserved_bytes, day, day_bytes)
  values (p_account, p_stored, p_reserved, today_utc(), greatest(p_stored, 0))
  on conflict (account_id) do update set
    stored_bytes = a.stored_bytes + p_stored, reserved_bytes = a.reserved_bytes + p_reserved,
    day = today_utc(), day_bytes = case when a.day = today_utc() then a.day_bytes else 0 end + greatest(p_stored, 0)
$$;

-- Adds what a statement changed. Accounts are locked in order, so that two statements cannot deadlock.
create function count_new_uploads() returns trigger language plpgsql as $$
begin
  perform count_upload_bytes(c.account_id, c.stored, c.reserved) from (
    select account_id, coalesce(sum(size_bytes) filter (where completed_at is not null), 0)::bigint as stored,
           coalesce(sum(reserved_bytes) filter (where completed_at is null and abandoned_at is null), 0)::bigint as reserved
    from new_uploads group by account_id order by account_id) c
    where c.stored <> 0 or c.reserved <> 0;
  return null;
end $$;

create function count_changed_uploads() returns trigger language plpgsql as $$
begin
  perform count_upload_bytes(c.account_id, c.stored, c.reserved) from (
    select u.account_id, coalesce(sum(u.sign * u.size_bytes) filter (where u.completed_at is not null), 0)::bigint as stored,
           coalesce(sum(u.sign * u.reserved_bytes) filter (where u.completed_at is null and u.abandoned_at is null), 0)::bigint as reserved
    from (select n.*, 1 as sign from new_uploads n union all select o.*, -1 as sign from old_uploads o) u
    group by u.account_id order by u.account_id) c
    where c.stored <> 0 or c.reserved <> 0;
  return null;
end $$;

create function count_gone_uploads() returns trigger language plpgsql as $$
begin
  perform count_upload_bytes(c.account_id, -c.stored, -c.reserved) from (
    select account_id, coalesce(sum(size_bytes) filter (where completed_at is not null), 0)::bigint as stored,
           coalesce(sum(reserved_bytes) filter (where completed_at is null and abandoned_at is null), 0)::bigint as reserved
    from old_uploads group by account_id order by account_id) c
    where c.stored <> 0 or c.reserved <> 0;
  return null;
end $$;

create trigger uploads_counted_new after insert on uploads
  referencing new table as new_uploads for each statement execute function count_new_uploads();
create trigger uploads_counted_changed after update on uploads
  referencing old table as old_uploads new table as new_uploads for each statement execute function count_changed_uploads();
create trigger uploads_counted_gone after delete on uploads
  referencing old table as old_uploads for each statement execute function count_gone_uploads();

insert into account_uploads (account_id, stored_bytes)
  select account_id, sum(size_bytes) from uploads where completed_at is not null group by account_id;

create type upload_outcome as (
  -- begun, extended and complete; or the reason of the refusal: unknown (no upload under way, or one with other bytes),
  -- account_full and day_full (`limit_mb`)
  outcome text,
  -- Bytes that room is set aside for.
  reserved_bytes bigint,
  limit_mb int,
  -- Until the day ends.
  retry_seconds int,
  link_seconds int
);

create type upload_room as (room_bytes bigint, outcome text, limit_mb int);

-- Returns how many more bytes an account may upload, with the limit that leaves least. The caller has locked its counts.
-- p_with_reserved: whether uploads under way count.
create function upload_room_of(p_account text, p_with_reserved boolean) returns upload_room language sql stable as $$
  select l.mb * 1000000::bigint - l.used - case when p_with_reserved then u.reserved_bytes else 0 end, l.outcome, l.mb
  from account_uploads u
    join accounts a on a.id = u.account_id
    join account_balances b on b.account_id = a.id
    cross join settings s
    cross join lateral (
      select 'account_full' as outcome, coalesce(a.stored_mb_limit, s.stored_mb_per_account) as mb, u.stored_bytes as used
      union all
      select 'day_full', coalesce(a.daily_mb_limit, s.daily_mb_without_money),
             case when u.day = today_utc() then u.day_bytes else 0 end
      where b.available_micros + b.held_micros <= 0) l
  where u.account_id = p_account and l.mb is not null
  order by 1 limit 1
$$;

create function refused_upload(p_room upload_room) returns upload_outcome language sql stable as $$
  select p_room.outcome, null::bigint, p_room.limit_mb,
         case when p_room.outcome = 'day_full'
              then ceil(extract(epoch from (today_utc() + 1)::timestamp - (now() at time zone 'UTC')))::int end,
         null::int
$$;

-- Locks the counts of an account until the end of the transaction.
create function lock_account_uploads(p_account text) returns void language plpgsql as $$
begin
  perform 1 from account_uploads u where u.account_id = p_account for no key update;
  if not found then
    insert into account_uploads (account_id) values (p_account) on conflict do nothing;
    perform 1 from account_uploads u where u.account_id = p_account for no key update;
  end if;
end $$;

-- Reserves a key, and room for its file. The size of a form is known, that of its file only within what the form adds; so
-- there is room for what may fit, and complete_upload decides.
-- p_least: least size of the file. p_reserve: bytes to set aside, fewer where there is no more room
create function begin_upload(p_key text, p_account text, p_least bigint, p_reserve bigint) returns upload_outcome
language plpgsql as $$
declare
  v_room upload_room;
  v_reserved bigint;
begin
  perform lock_account_uploads(p_account);
  v_room := upload_room_of(p_account, true);
  if v_room.room_bytes < greatest(p_least, 1) then return refused_upload(v_room); end if;
  v_reserved := least(p_reserve, coalesce(v_room.room_bytes, p_reserve));
  insert into uploads (file_key, account_id, reserved_bytes) values (p_key, p_account, v_reserved);
  return row('begun', v_reserved, null, null, null)::upload_outcome;
end $$;

-- Sets more room aside for an upload under way, as much as there is, but not none.
create function extend_upload(p_key text, p_account text, p_more bigint) returns upload_outcome language plpgsql as $$
declare
  v_room upload_room;
  v_reserved bigint;
begin
  perform 1 from uploads u
    where u.file_key = p_key and u.account_id = p_account and u.completed_at is null and u.abandoned_at is null
    for no key update;
  if not found then return row('unknown', null, null, null, null)::upload_outcome; end if;
  perform lock_account_uploads(p_account);
  v_room := upload_room_of(p_account, true);
  if v_room.room_bytes < 1 then return refused_upload(v_room); end if;
  update uploads u set reserved_bytes = u.reserved_bytes + least(p_more, coalesce(v_room.room_bytes, p_more))
    where u.file_key = p_key returning u.reserved_bytes into v_reserved;
  return row('extended', v_reserved, null, null, null)::upload_outcome;
end $$;

-- Makes an upload usable if its account has room for it. Completing again with the same facts gives the same answer.
create function complete_upload(
  p_key text, p_account text, p_kind text, p_content_type text, p_size bigint, p_sha256 bytea
) returns upload_outcome language plpgsql as $$
declare
  v_upload uploads;
  v_room upload_room;
begin
  select * into v_upload from uploads u
    where u.file_key = p_key and u.account_id = p_account and u.abandoned_at is null
      and (u.completed_at is null or (u.kind = p_kind and u.sha256 = p_sha256))
    for no key update;
  if not found then return row('unknown', null, null, null, null)::upload_outcome; end if;
  if v_upload.completed_at is null then
    perform lock_account_uploads(p_account);
    v_room := upload_room_of(p_account, false);
    if v_room.room_bytes < p_size then return refused_upload(v_room); end if;
    update uploads u set completed_at = now(), kind = p_kind, content_type = p_content_type, size_bytes = p_size,
                         sha256 = p_sha256
      where u.file_key = p_key;
  end if;
  return row('complete', null, null, null, (select s.link_seconds from settings s))::upload_outcome;
end $$;

-- Slot time of renders that ended without a charge for a reason that lies with their account, by the minute of their end.
create table failed_work (
  account_id text not null references accounts,
  minute timestamptz not null,
  slot_ms bigint not null,
  primary key (account_id, minute)
);
create index failed_work_by_age on failed_work (minute);

-- Returns whether the failed work of the last hour is beyond the account's limit, as the limit; null: it is not.
create function failed_work_limit(p_account text) returns int language sql stable as $$
  select l.seconds
  from accounts a cross join settings s
    cross join lateral (select coalesce(a.failed_slot_seconds_limit, s.failed_slot_seconds_per_hour) as seconds) l
  where a.id = p_account
    and (select coalesce(sum(w.slot_ms), 0) from failed_work w
         where w.account_id = p_account and w.minute > now() - interval '1 hour') > l.seconds * 1000::bigint
$$;

-- Counts the slot time of a job that was just settled, if it ended without a charge for a reason that lies with its
-- account: the job was cancelled by its owner, it took too long, or it failed on its inputs.
-- p_slot_ms: of its last attempt; null: unknown, or none
create function count_failed_work(p_job text, p_slot_ms bigint) returns void language sql as $$
  insert into failed_work as w (account_id, minute, slot_ms)
  select j.account_id, date_trunc('minute', now()), p_slot_ms from jobs j
  where j.id = p_job and j.status = 'failed' and p_slot_ms > 0
    and (j.cancel_requested_at is not null or j.reason = 'timed_out'
      or j.error_code in ('face_not_detected', 'unsupported_format', 'input_too_large', 'content_rejected'))
  on conflict (account_id, minute) do update set slot_ms = w.slot_ms + excluded.slot_ms
$$;

-- Ends a batch of jobs in one transaction, as in 0007, and counts the slot time of those that failed.
-- p_requests: as in 0007, and `slot_ms`, which may be null or absent; see count_failed_work
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
                                         reason text, findings jsonb, at timestamptz, slot_ms bigint)
    ) with ordinality as q(job, uid, output, error_code, error_message, reason, findings, at, slot_ms, place)
    order by (select j.account_id from jobs j where j.id = q.job), q.place
  loop
    place := v_request.place;
    result := settle_job(v_request.job, v_request.uid, nullif(v_request.output, 'null'), v_request.error_code,
                         v_request.error_message, v_request.reason, v_request.at, nullif(v_request.findings, 'null'));
    -- The settlement holds the lock of the account's balance.
    if (result).outcome = 'settled' then perform count_failed_work(v_request.job, v_request.slot_ms); end if;
    return next;
  end loop;
end $$;

-- Admits one job, as in 0006, unless too much work of its account failed in the last hour: `platform_full` with the
-- detail `failed_work <limit>`, since releases before this one know that outcome.
create or replace function submit_job(
  p_job text, p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_callback text,
  p_idempotency_key text, p_body_sha256 bytea, p_room int
) returns submit_outcome language plpgsql as $$
declare
  v_available bigint;
  v_in_flight int;
  v_ceiling int;
  v_key idempotency_keys;
  v_quote job_quote;
  v_hold_id bigint;
  v_renderjob_task bigint;
  v_event_task bigint;
  v_limit int;
begin
  -- The row lock serialises everything that decides about this account's money, ceiling and keys.
  select b.available_micros - b.reserved_micros, b.holds_open, coalesce(a.jobs_in_flight_limit, s.jobs_in_flight_per_account)
    into strict v_available, v_in_flight, v_ceiling
    from account_balances b join accounts a on a.id = b.account_id cross join settings s
    where b.account_id = p_account for no key update of b;

  if p_idempotency_key is not null then
    select * into v_key from idempotency_keys i where i.account_id = p_account and i.key = p_idempotency_key;
    if found then
      if v_key.body_sha256 <> p_body_sha256 then return row('conflict', null, null, null, null, null)::submit_outcome; end if;
      return row('replayed', v_key.job_id, null, null, null, null)::submit_outcome;
    end if;
  end if;

  v_quote := quote_with(p_account, p_capability, p_inputs, p_parameters, v_available);
  if v_quote.outcome <> 'quoted' then
    return row(v_quote.outcome, null, v_quote.detail, null, null, null)::submit_outcome;
  end if;

  if v_in_flight >= v_ceiling then
    return row('account_full', null, v_ceiling::text, null, null, null)::submit_outcome;
  end if;
  v_limit := failed_work_limit(p_account);
  if v_limit is not null then
    return row('platform_full', null, 'failed_work ' || v_limit, null, null, null)::submit_outcome;
  end if;
  if p_room <= 0 then return row('platform_full', null, null, null, null, null)::submit_outcome; end if;
  if v_available < v_quote.hold_micros then
    return row('insufficient_balance', null, v_available::text, v_quote.hold_micros, null, null)::submit_outcome;
  end if;

  insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    values (p_account, 'hold', 'available', 'held', v_quote.hold_micros, p_job) returning id into v_hold_id;
  insert into jobs (id, account_id, capability, inputs, parameters, callback_url, hold_id, hold_micros, rate_version, unit,
                    rate_micros, minimum_micros)
    values (p_job, p_account, p_capability,
            (select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)),
            p_parameters, p_callback, v_hold_id, v_quote.hold_micros, v_quote.rate_version, v_quote.unit,
            v_quote.rate_micros, v_quote.minimum_micros);
  insert into outbox (kind, job_id) values ('renderjob', p_job) returning id into v_renderjob_task;
  insert into outbox (kind, job_id, status) values ('event', p_job, 'queued') returning id into v_event_task;
  if p_idempotency_key is not null then
    insert into idempotency_keys (account_id, key, body_sha256, job_id)
      values (p_account, p_idempotency_key, p_body_sha256, p_job);
  end if;
  return row('accepted', p_job, null, v_quote.hold_micros, v_renderjob_task, v_event_task)::submit_outcome;
end $$;

-- Returns how many seconds an account has to wait for its next session because its last ones held slots and had no
-- stream. Each time that a client has for its connection, held so in all, counts one. Nothing follows from the first,
-- 5 s from the second, and twice as long from each further one, up to the setting. Until one has a stream again, only one
-- at a time may wait for its connection. Sessions that their owner ended before anybody connected count, those that the
-- service ended do not.
create function session_pause(p_account text) returns int language plpgsql stable as $$
declare
  v_session record;
  v_settings settings;
  v_held float8 := 0;
  v_ended timestamptz;
  v_times int;
  v_pause int;
begin
  select * into strict v_settings from settings;
  if v_settings.session_longest_pause_seconds = 0 then return 0; end if;
  for v_session in
    select s.streamed_ms, s.created_at, s.ended_at, s.reason, s.connected_at from sessions s
    where s.account_id = p_account and s.created_at is not null and s.ended_at is not null
    order by s.created_at desc, s.id desc limit 100
  loop
    exit when v_session.streamed_ms > 0;
    if v_session.reason = 'no_stream' or (v_session.reason = 'cancelled' and v_session.connected_at is null) then
      v_held := v_held + greatest(0, extract(epoch from v_session.ended_at - v_session.created_at));
      v_ended := greatest(v_ended, v_session.ended_at);
    end if;
  end loop;
  v_times := floor(least(v_held / v_settings.session_connect_seconds, 30));
  if v_times < 2 then return 0; end if;
  v_pause := least(v_settings.session_longest_pause_seconds, 5 * 2 ^ (v_times - 2));
  if exists (select 1 from sessions s where s.account_id = p_account and s.ended_at is null and s.state in ('opening', 'open')) then
    return v_pause;
  end if;
  -- An end ahead of the clock was before the clock was set back.
  if v_ended > now() + interval '2 seconds' then return 0; end if;
  return greatest(0, ceil(v_pause - extract(epoch from now() - v_ended)));
end $$;

-- Admits one session, as in 0008, unless the account has to pause: `platform_full` with the detail `pause <seconds>`,
-- since releases before this one know that outcome.
create or replace function open_session(
  p_session text, p_account text, p_capability text, p_inputs jsonb, p_minutes int, p_token_sha256 bytea, p_ticket bytea, p_room int
) returns open_outcome language plpgsql as $$
declare
  v_available bigint;
  v_ceiling int;
  v_settings settings;
  v_quote job_quote;
  v_asked int := p_minutes * 60;
  v_seconds int;
  v_cost bigint;
  v_pause int;
begin
  -- As in submit_job, this lock serialises what decides about an account's money and ceiling.
  select b.available_micros - b.reserved_micros, a.live_sessions_limit into strict v_available, v_ceiling
    from account_balances b join accounts a on a.id = b.account_id where b.account_id = p_account for no key update of b;
  select * into strict v_settings from settings;
  v_ceiling := coalesce(v_ceiling, v_settings.live_sessions_per_account);

  v_quote := quote_with(p_account, p_capability, p_inputs, '{}', v_available);
  if v_quote.outcome <> 'quoted' then
    return row(v_quote.outcome, v_quote.detail, null, null, null)::open_outcome;
  end if;
  if v_quote.unit <> 'minute' then raise exception 'sessions of % are not priced by the minute', p_capability; end if;
  if (select count(*) from (select 1 from sessions s where s.account_id = p_account and s.ended_at is null limit v_ceiling) n)
     >= v_ceiling then
    return row('account_full', v_ceiling::text, null, null, null)::open_outcome;
  end if;
  v_pause := session_pause(p_account);
  if v_pause > 0 then return row('platform_full', 'pause ' || v_pause, null, null, null)::open_outcome; end if;
  if p_room <= 0 then return row('platform_full', null, null, null, null)::open_outcome; end if;

  -- The most seconds whose rounded price is at most the available amount.
  v_seconds := case when v_quote.rate_micros = 0 then v_asked else
    greatest(0, least(v_asked, div((v_available::numeric + 1) * 60000 - 30001, v_quote.rate_micros::numeric * 1000))) end;
  if v_seconds < least(v_asked, v_settings.session_shortest_seconds) then
    v_cost := price_of_stream(v_quote.rate_micros, least(v_asked, v_settings.session_shortest_seconds) * 1000::bigint);
    return row('insufficient_balance', v_available::text, null, v_cost, null)::open_outcome;
  end if;
  v_cost := price_of_stream(v_quote.rate_micros, v_seconds * 1000::bigint);
  if v_cost > 0 and (reserve_block(p_session, p_account, v_cost)).outcome <> 'reserved' then
    raise exception 'the block of session % is not to be had', p_session;
  end if;
  insert into sessions (id, account_id, capability, inputs, token_sha256, ticket, rate_version, rate_micros, max_seconds,
                        max_cost_micros, connect_seconds)
    values (p_session, p_account, p_capability,
            coalesce((select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)), '{}'),
            p_token_sha256, p_ticket, v_quote.rate_version, v_quote.rate_micros, v_seconds, v_cost,
            v_settings.session_connect_seconds);
  return row('reserved', null, v_seconds, v_cost, v_settings.session_connect_seconds)::open_outcome;
end $$;
