-- Live sessions: their opening, the reports of their streams, and the one charge at their end.

-- Returns a rate per minute × milliseconds of stream, rounded half up to a micro-dollar, like price_of.
create function price_of_stream(rate_micros bigint, streamed_ms bigint) returns bigint language sql immutable strict as $$
  select div(rate_micros::numeric * streamed_ms + 30000, 60000)::bigint
$$;

create table sessions (
  -- Also the name of the LiveSession and of the reserved block.
  id text primary key,
  account_id text not null references account_balances,
  capability text not null,
  -- {role: file key}
  inputs jsonb not null,
  -- opening (a slot is requested) → open (the slot is held) → connected → ended. Or opening → refused: there was no
  -- slot, and for its caller it never was a session.
  state text not null default 'opening' check (state in ('opening', 'open', 'connected', 'ended', 'refused')),
  asked_at timestamptz not null default clock_timestamp(),
  -- Time when its slot was held, set under the lock of the account like a job's. From then on it is a usage entry.
  created_at timestamptz,
  connect_by timestamptz,
  connected_at timestamptz,
  reported_at timestamptz,
  -- Silence that ends the session, as it was when its gateway was told the report interval. Null: nobody has connected.
  report_timeout_seconds int,
  ended_at timestamptz,
  -- SHA-256 of the token with which the client connects. The token itself is not stored.
  token_sha256 bytea not null check (length(token_sha256) = 32),
  -- Shown by the gateway to the agent; deleted at the end.
  ticket bytea,
  -- Terms agreed at the opening, whatever happens to rates and settings.
  rate_version bigint not null,
  -- Per minute.
  rate_micros bigint not null check (rate_micros >= 0),
  max_seconds int not null check (max_seconds > 0),
  max_cost_micros bigint not null,
  connect_seconds int not null,
  -- The slot.
  agent text,
  agent_incarnation text,
  agent_address text,
  -- The one connection that a session has in its life.
  connection_id text,
  -- Time from the first to the last converted frame; it only grows.
  streamed_ms bigint not null default 0,
  -- Set when the service owner requests the end.
  end_requested_at timestamptz,
  charged_micros bigint check (charged_micros >= 0),
  reason text check (reason in ('session_limit_reached', 'no_stream', 'render_failed', 'timed_out', 'cancelled')),
  -- Status in usage entries.
  status text generated always as (
    case when ended_at is null then case state when 'connected' then 'processing' else 'queued' end
         when streamed_ms > 0 then 'succeeded' else 'failed' end) stored,
  constraint never_beyond_the_ceiling check (streamed_ms between 0 and max_seconds * 1000::bigint),
  constraint block_is_what_it_may_cost check (max_cost_micros = price_of_stream(rate_micros, max_seconds * 1000::bigint)),
  constraint ended_is_settled check (
    (state in ('ended', 'refused')) = (ended_at is not null) and (ended_at is null) = (charged_micros is null)),
  constraint charged_what_was_streamed check (charged_micros is null or charged_micros = price_of_stream(rate_micros, streamed_ms)),
  constraint refused_never_began check (state <> 'refused' or (created_at is null and streamed_ms = 0)),
  constraint begun_has_a_slot check (
    (state in ('opening', 'refused')) = (created_at is null) and (created_at is null) = (agent is null)
    and (agent is null) = (agent_address is null) and (agent is null) = (agent_incarnation is null)),
  constraint connected_by_somebody check (
    (connection_id is null) = (connected_at is null) and (state <> 'connected' or connection_id is not null)),
  constraint nothing_streamed_is_failed check (state <> 'ended' or streamed_ms > 0 or coalesce(reason, '') in ('no_stream', 'render_failed', 'cancelled'))
) with (fillfactor = 70);
create index sessions_open on sessions (account_id, id) where ended_at is null;
create index sessions_by_account on sessions (account_id, created_at, id);

-- The charge of a session references it.
alter table ledger_transfers add foreign key (session_id) references sessions;

-- Returns how many more sessions the platform takes; works like platform_room for jobs.
create function session_room() returns int language plpgsql as $$
declare
  v_ceiling int := (select live_sessions from settings);
  v_room int;
begin
  v_room := v_ceiling - (select count(*) from (select 1 from sessions where ended_at is null limit v_ceiling) n);
  if v_room < 64 then
    perform pg_advisory_xact_lock(7362652636266225);
    v_room := v_ceiling - (select count(*) from (select 1 from sessions where ended_at is null limit v_ceiling) n);
  end if;
  return v_room;
end $$;

create type open_outcome as (
  -- reserved, or the reason of the refusal: capability_unavailable, unknown_input and wrong_kind (`detail`: the role),
  -- account_full, platform_full, insufficient_balance (`detail`: available amount; max_cost_micros: cost of the
  -- shortest session)
  outcome text,
  detail text,
  max_seconds int,
  max_cost_micros bigint,
  connect_seconds int
);

-- Admits one session: block and row, or nothing. The session gets the requested minutes, or as many seconds of them as
-- the account can pay.
-- p_inputs: [{role, key, kind}]
create function open_session(
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

-- Admits a batch in one transaction, in the order of accounts.
-- p_requests: [{session, account, capability, inputs, minutes, token_sha256 (hex), ticket (hex)}]
create function open_sessions(p_requests jsonb) returns table (place bigint, result open_outcome) language plpgsql as $$
declare
  v_room int := session_room();
  v_request record;
begin
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (session text, account text, capability text, inputs jsonb, minutes int,
                                         token_sha256 text, ticket text)
    ) with ordinality as q(session, account, capability, inputs, minutes, token_sha256, ticket, place)
    order by q.account, q.place
  loop
    place := v_request.place;
    result := open_session(v_request.session, v_request.account, v_request.capability, v_request.inputs, v_request.minutes,
                           decode(v_request.token_sha256, 'hex'), decode(v_request.ticket, 'hex'), v_room);
    if (result).outcome = 'reserved' then v_room := v_room - 1; end if;
    return next;
  end loop;
end $$;

-- Locks existing sessions in the order of ids, then the balances of their accounts in the order of account ids. All
-- writers lock in this order.
create function lock_sessions(p_ids text[]) returns void language plpgsql as $$
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

-- Records that the slots of a batch are held, so the sessions are open. False: the session was given up before, and its
-- slot must be released.
-- p_slots: [{session, agent, incarnation, address}]
create function sessions_opened(p_slots jsonb) returns table (place bigint, opened boolean) language plpgsql as $$
declare
  v_slot record;
begin
  perform lock_sessions(array(select e ->> 'session' from jsonb_array_elements(p_slots) e));
  for v_slot in
    select q.* from rows from (
      jsonb_to_recordset(p_slots) as (session text, agent text, incarnation text, address text)
    ) with ordinality as q(session, agent, incarnation, address, place) order by q.place
  loop
    place := v_slot.place;
    update sessions s set state = 'open', created_at = clock_timestamp(),
                          connect_by = now() + s.connect_seconds * interval '1 second',
                          agent = v_slot.agent, agent_incarnation = v_slot.incarnation, agent_address = v_slot.address
      where s.id = v_slot.session and s.state = 'opening';
    opened := found;
    return next;
  end loop;
end $$;

-- Releases the block of a session for which there was no slot. True: by this call.
create function refuse_session(p_session text) returns boolean language plpgsql as $$
begin
  perform 1 from sessions s where s.id = p_session and s.state = 'opening' for no key update;
  if not found then return false; end if;
  perform release_block(p_session);
  update sessions s set state = 'refused', ended_at = now(), charged_micros = 0, ticket = null where s.id = p_session;
  return true;
end $$;

-- Does the same for many sessions.
create function refuse_sessions(p_ids text[]) returns void language plpgsql as $$
begin
  perform lock_sessions(p_ids);
  perform refuse_session(i) from unnest(p_ids) i;
end $$;

create type end_outcome as (
  -- settled; already (settled before); unknown; opening (not open yet, so it is refused instead of settled)
  outcome text,
  capability text,
  status text,
  reason text,
  streamed_ms bigint,
  charged_micros bigint
);

-- Ends a session once, however often it is called: charges what was streamed, releases its block, counts the call. A
-- session that never streamed has failed, with a reason. p_at null: now.
create function settle_session(p_session text, p_reason text, p_at timestamptz) returns end_outcome language plpgsql as $$
declare
  v_session sessions;
  v_charge bigint;
  v_reason text := p_reason;
  v_at timestamptz := coalesce(p_at, now());
begin
  select * into v_session from sessions s where s.id = p_session for no key update;
  if not found then return row('unknown', null, null, null, null, null)::end_outcome; end if;
  if v_session.ended_at is not null then
    return row('already', v_session.capability, v_session.status, v_session.reason, v_session.streamed_ms,
               v_session.charged_micros)::end_outcome;
  end if;
  if v_session.state = 'opening' then
    return row('opening', v_session.capability, v_session.status, null, 0, null)::end_outcome;
  end if;
  -- Usage hours are written under this lock, also for sessions without a block.
  perform 1 from account_balances b where b.account_id = v_session.account_id for no key update;
  perform release_block(p_session);
  v_charge := price_of_stream(v_session.rate_micros, v_session.streamed_ms);
  if v_charge > 0 then
    insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, session_id, created_at)
      values (v_session.account_id, 'session', 'available', 'revenue', v_charge, p_session, v_at);
  end if;
  if v_session.streamed_ms = 0 and coalesce(v_reason, '') not in ('render_failed', 'cancelled') then
    v_reason := 'no_stream';
  end if;
  update sessions s set state = 'ended', ended_at = v_at, charged_micros = v_charge, reason = v_reason, ticket = null
    where s.id = p_session returning * into v_session;
  return row('settled', v_session.capability, v_session.status, v_reason, v_session.streamed_ms, v_charge)::end_outcome;
end $$;

-- Stores how far sessions have streamed, and settles those that ended. A late, repeated or reordered report can only be
-- lower than the stored value; a value above the ceiling counts as the ceiling. A report for another connection than
-- the session's changes nothing. `result` is null while the session continues.
-- p_reports: [{session, connection, streamed_ms, ended, reason}]
create function report_sessions(p_reports jsonb, p_at timestamptz)
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

-- Ends sessions that nobody else will end: openings of dead processes, sessions without a connection, sessions without
-- reports. A database clock that is set forwards or back neither ends a running session nor keeps a dead one. For the
-- silence the longer value counts: that at the connection, or the present one.
-- p_heard_seconds: time for which reports could be received without a gap; earlier silence proves nothing.
-- p_latest: latest possible reading of the clock unless it was set forwards; later readings are cut to it. Null:
-- unknown.
-- p_unset_seconds: time since the clock was set forwards; null: never. Earlier times cannot be compared with the clock,
-- so a waiting session is late only after its whole waiting time has passed since then.
create function expire_sessions(p_heard_seconds float8, p_at timestamptz, p_latest timestamptz, p_unset_seconds float8)
returns table (session text, result end_outcome) language plpgsql set enable_seqscan = off as $$
declare
  v_due record;
  v_now timestamptz := least(now(), p_latest);
  v_unset float8 := coalesce(p_unset_seconds, 'infinity');
  -- Statements that began after this one may already have written.
  v_soon timestamptz := now() + interval '2 seconds';
begin
  -- A future time was written before the clock was set back, so its wait begins now.
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
