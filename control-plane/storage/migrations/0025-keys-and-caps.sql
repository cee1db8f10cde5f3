-- compatible-from: 0012
-- What a key may do, until when and from where, and what may be spent with it.

-- The keys of earlier releases may do everything, from everywhere, for ever.
alter table api_keys
  add column scopes text[] not null default '{submit,read,sessions,account}'
    check (cardinality(scopes) > 0 and scopes <@ '{submit,read,sessions,account}'),
  -- Null: never.
  add column expires_at timestamptz,
  -- Networks that it is taken from, IPv4 as such. Null: any.
  add column allowed_addresses cidr[] check (cardinality(allowed_addresses) between 1 and 32),
  -- Most micro-dollars in a day and in a month (UTC) for what is submitted and opened with the key. Null: no cap.
  add column cap_day_micros bigint check (cap_day_micros >= 0),
  add column cap_month_micros bigint check (cap_month_micros >= 0),
  -- The keys that made it and those that made them. What is spent with it counts toward their caps too. Empty: the service
  -- owner made it.
  add column made_by text[] not null default '{}';

-- Holders of accounts change their keys and caps with keys.
alter table audit drop constraint audit_role_check;
alter table audit add constraint audit_role_check check (role in ('owner', 'support', 'read-only', 'account')) not valid;

-- Returns why a key is not taken from an address now: `expired` or `address`; null: it is.
-- p_address null: the gateway did not say where the call comes from
create function key_fault(p_key api_keys, p_address inet) returns text language sql stable as $$
  select case when p_key.expires_at <= now() then 'expired'
              when p_key.allowed_addresses is not null and not coalesce(p_address <<= any(p_key.allowed_addresses), false)
                then 'address' end
$$;

-- Caps of an account: the service owner's, and its holder's own, which can only be tighter.
alter table accounts
  add column cap_day_micros bigint check (cap_day_micros >= 0),
  add column cap_month_micros bigint check (cap_month_micros >= 0),
  add column own_cap_day_micros bigint check (own_cap_day_micros >= 0),
  add column own_cap_month_micros bigint check (own_cap_month_micros >= 0);

-- The key that pays is that of the submit. Null: there was none, or an earlier release.
alter table jobs add column submit_key_id text;
create index jobs_held_by_key on jobs (submit_key_id) include (hold_micros)
  where settled_at is null and submit_key_id is not null;
alter table sessions add column key_id text;

-- Charges by key and UTC day, as spend_days has them by account.
create table key_spend_days (
  key_id text not null,
  day date not null,
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (key_id, day)
) with (fillfactor = 50);

create function spend_with_key(p_key text, p_at timestamptz, p_micros bigint) returns void language sql as $$
  insert into key_spend_days as d (key_id, day, spent_micros) values (p_key, (p_at at time zone 'UTC')::date, p_micros)
  on conflict (key_id, day) do update set spent_micros = d.spent_micros + excluded.spent_micros
$$;

-- They follow jobs and sessions, whichever release settles them, under the lock of the account.
create function count_job_spend() returns trigger language plpgsql as $$
begin
  perform spend_with_key(new.submit_key_id, new.settled_at, new.charged_micros);
  return null;
end $$;
create trigger jobs_spend_of_key after update on jobs for each row
  when (old.settled_at is null and new.charged_micros > 0 and new.submit_key_id is not null)
  execute function count_job_spend();
create function count_session_spend() returns trigger language plpgsql as $$
begin
  perform spend_with_key(new.key_id, new.ended_at, new.charged_micros);
  return null;
end $$;
create trigger sessions_spend_of_key after update on sessions for each row
  when (old.ended_at is null and new.charged_micros > 0 and new.key_id is not null)
  execute function count_session_spend();
-- As ledger_apply does: a refund lessens the spend of the day on which its charge was booked.
create function lessen_key_spend() returns trigger language plpgsql as $$
begin
  update key_spend_days d set spent_micros = d.spent_micros - new.amount_micros
    from charge_of(new.account_id, new.refund_of) c
    where d.day = (c.booked_at at time zone 'UTC')::date
      and d.key_id = coalesce((select j.submit_key_id from jobs j where j.id = new.refund_of),
                              (select s.key_id from sessions s where s.id = new.refund_of));
  return null;
end $$;
create trigger ledger_refund_of_key after insert on ledger_transfers for each row when (new.kind = 'refund')
  execute function lessen_key_spend();

-- A cap and what counts toward it: what was charged in its period, and what is held now.
create type cap_state as (
  -- account; key; maker, a key that made the key
  holder text,
  -- Of a key.
  key_id text,
  -- day, month
  period text,
  -- Null: there is no cap.
  cap_micros bigint,
  -- Of an account: the cap that the service owner set, and that of its holder; `cap_micros` is the lower.
  owner_micros bigint,
  own_micros bigint,
  spent_micros bigint,
  held_micros bigint,
  -- First day of the period, and the first after it.
  first date,
  past date
);

-- Returns the caps of an account, of one of its keys and of those that made the key, by day and by month (UTC). What is spent
-- and held with a key includes that of the keys that it made.
-- p_key null: of the account alone. p_all: also where there is no cap
create function caps_of(p_account text, p_key text, p_all boolean) returns setof cap_state language sql stable as $$
  select c.holder, c.key, c.period, least(c.owner, c.own), c.owner, c.own,
    case c.holder
      when 'account' then coalesce((select sum(d.spent_micros) from spend_days d
        where d.account_id = p_account and d.day >= c.first and d.day < c.past), 0)
      else coalesce((select sum(d.spent_micros) from key_spend_days d
        where d.key_id = any(c.spends) and d.day >= c.first and d.day < c.past), 0) end::bigint,
    case c.holder
      when 'account' then (select b.held_micros + b.reserved_micros from account_balances b where b.account_id = p_account)
      else coalesce((select sum(j.hold_micros) from jobs j where j.submit_key_id = any(c.spends) and j.settled_at is null), 0)
        + coalesce((select sum(s.max_cost_micros) from sessions s
            where s.account_id = p_account and s.ended_at is null and s.key_id = any(c.spends)), 0) end::bigint,
    c.first, c.past
  from (
    select h.holder, h.key, h.spends, p.period, case p.period when 'day' then h.owner_day else h.owner_month end as owner,
           case p.period when 'day' then h.own_day else h.own_month end as own, p.first, p.past
    from (
      select 'account' as holder, null as key, null::text[] as spends, a.cap_day_micros as owner_day, a.cap_month_micros as owner_month,
             a.own_cap_day_micros as own_day, a.own_cap_month_micros as own_month
        from accounts a where a.id = p_account
      union all
      select case k.id when p_key then 'key' else 'maker' end, k.id,
             array(select m.id from api_keys m where m.account_id = p_account and (m.id = k.id or k.id = any(m.made_by))),
             null, null, k.cap_day_micros, k.cap_month_micros
        from api_keys k where k.account_id = p_account
          and k.id in (select unnest(o.made_by || o.id) from api_keys o where o.id = p_key)
    ) h cross join (
      select 'day' as period, today_utc() as first, today_utc() + 1 as past
      union all
      select 'month', date_trunc('month', today_utc())::date, (date_trunc('month', today_utc()) + interval '1 month')::date
    ) p
  ) c
  where p_all or c.owner is not null or c.own is not null
$$;

-- What a cap leaves; null: there is no cap. Below zero when it was lowered, or a charge was more than its hold.
create function cap_room(p_cap cap_state) returns bigint language sql immutable as $$
  select p_cap.cap_micros - p_cap.spent_micros - p_cap.held_micros
$$;

-- Returns the cap that leaves least of an account and of one of its keys. The caller has locked the account's balance, which
-- every hold, block and charge locks, so nothing is decided on what has changed meanwhile.
create function tightest_cap(p_account text, p_key text) returns cap_state language sql stable as $$
  select c from caps_of(p_account, p_key, false) c order by cap_room(c) limit 1
$$;

-- Micro-dollars as dollars, for bodies of webhooks.
create function usd_of(p_micros bigint) returns numeric language sql immutable as $$ select trim_scale(p_micros::numeric / 1000000) $$;

-- The period of each cap in which it was last said that four fifths of it are spent or held, so that it is said once.
create table cap_alarms (
  -- Id of the account or key.
  holder text not null,
  period text not null,
  first date not null,
  primary key (holder, period)
);

-- Owes `cap.reached_80` for the caps that a hold or block has brought so far, in its transaction.
create function note_caps(p_account text, p_key text) returns void language plpgsql as $$
declare
  v_cap cap_state;
begin
  for v_cap in select * from caps_of(p_account, p_key, false) loop
    continue when v_cap.cap_micros = 0 or (v_cap.spent_micros + v_cap.held_micros)::numeric * 5 < v_cap.cap_micros::numeric * 4;
    insert into cap_alarms as c (holder, period, first) values (coalesce(v_cap.key_id, p_account), v_cap.period, v_cap.first)
      on conflict (holder, period) do update set first = excluded.first where c.first < excluded.first;
    if found then
      perform owe_event(p_account, 'cap.reached_80',
        concat_ws(' ', coalesce(v_cap.key_id, p_account), v_cap.period, v_cap.first),
        jsonb_build_object('key_id', v_cap.key_id, 'period', v_cap.period, 'cap_usd', usd_of(v_cap.cap_micros),
          'spent_usd', usd_of(v_cap.spent_micros), 'held_usd', usd_of(v_cap.held_micros),
          'ends_at', v_cap.past || 'T00:00:00Z'));
    end if;
  end loop;
end $$;

alter table account_balances
  -- Below which what is available is low. Null: nobody asked to be told.
  add column alarm_micros bigint check (alarm_micros >= 0),
  add column is_low boolean not null default false,
  -- How often it has become low.
  add column lows int not null default 0;

-- Owes `balance.low` when a transaction leaves less than the alarm where there was more before. It looks at the end of the
-- transaction, since a settlement gives back and takes in several steps.
create function note_low_balance() returns trigger language plpgsql as $$
declare
  v_now account_balances;
begin
  update account_balances b set is_low = not b.is_low, lows = b.lows + (not b.is_low)::int
    where b.account_id = new.account_id and b.is_low <> (b.available_micros - b.reserved_micros < b.alarm_micros)
    returning b.* into v_now;
  if v_now.is_low then
    perform owe_event(new.account_id, 'balance.low', new.account_id || ' ' || v_now.lows,
      jsonb_build_object('available_usd', usd_of(v_now.available_micros - v_now.reserved_micros),
        'alarm_balance_usd', usd_of(v_now.alarm_micros)));
  end if;
  return null;
end $$;
create constraint trigger balance_alarm after update on account_balances deferrable initially deferred for each row
  when (new.alarm_micros is not null
    and new.available_micros - new.reserved_micros <> old.available_micros - old.reserved_micros)
  execute function note_low_balance();

-- Admits one job, as in 0017, unless a cap does not leave its hold: `capped`, with the cap as JSON in `detail`. The functions
-- below end in a parameter with a default, so that calls without it go on.
-- p_key: the key of the submit, whose cap counts
drop function submit_job(text, text, text, jsonb, jsonb, text, text, bytea, int);
create function submit_job(
  p_job text, p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb, p_callback text,
  p_idempotency_key text, p_body_sha256 bytea, p_room int, p_key text default null
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
  v_cap cap_state;
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

  v_cap := tightest_cap(p_account, p_key);
  if v_quote.hold_micros > 0 and cap_room(v_cap) < v_quote.hold_micros then
    return row('capped', null, to_json(v_cap)::text, v_quote.hold_micros, null, null)::submit_outcome;
  end if;

  insert into ledger_transfers (account_id, kind, debit, credit, amount_micros, job_id)
    values (p_account, 'hold', 'available', 'held', v_quote.hold_micros, p_job) returning id into v_hold_id;
  insert into jobs (id, account_id, capability, inputs, parameters, callback_url, hold_id, hold_micros, rate_version, unit,
                    rate_micros, minimum_micros, submit_key_id)
    values (p_job, p_account, p_capability,
            (select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)),
            p_parameters, p_callback, v_hold_id, v_quote.hold_micros, v_quote.rate_version, v_quote.unit,
            v_quote.rate_micros, v_quote.minimum_micros, p_key);
  insert into outbox (kind, job_id) values ('renderjob', p_job) returning id into v_renderjob_task;
  insert into outbox (kind, job_id, status) values ('event', p_job, 'queued') returning id into v_event_task;
  if p_idempotency_key is not null then
    insert into idempotency_keys (account_id, key, body_sha256, job_id)
      values (p_account, p_idempotency_key, p_body_sha256, p_job);
  end if;
  if v_cap.cap_micros is not null then perform note_caps(p_account, p_key); end if;
  return row('accepted', p_job, null, v_quote.hold_micros, v_renderjob_task, v_event_task)::submit_outcome;
end $$;

-- Admits a batch, as in 0018, each job with the key that submits it.
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
                         v_request.callback, v_request.idempotency_key, decode(v_request.body_sha256, 'hex'), v_room,
                         v_request.key_id);
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

-- Admits one session, as in 0017, with at most the seconds that the caps leave; `capped` where that is less than the shortest.
drop function open_session(text, text, text, jsonb, int, bytea, bytea, int);
create function open_session(
  p_session text, p_account text, p_capability text, p_inputs jsonb, p_minutes int, p_token_sha256 bytea, p_ticket bytea, p_room int,
  p_key text default null
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
  v_cap cap_state;
  v_may bigint;
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

  -- The most seconds whose rounded price is at most what is available, and what the caps leave.
  v_cap := tightest_cap(p_account, p_key);
  v_may := least(v_available, cap_room(v_cap));
  v_seconds := case when v_quote.rate_micros = 0 then v_asked else
    greatest(0, least(v_asked, div((v_may::numeric + 1) * 60000 - 30001, v_quote.rate_micros::numeric * 1000))) end;
  if v_seconds < least(v_asked, v_settings.session_shortest_seconds) then
    v_cost := price_of_stream(v_quote.rate_micros, least(v_asked, v_settings.session_shortest_seconds) * 1000::bigint);
    if v_available >= v_cost then return row('capped', to_json(v_cap)::text, null, v_cost, null)::open_outcome; end if;
    return row('insufficient_balance', v_available::text, null, v_cost, null)::open_outcome;
  end if;
  v_cost := price_of_stream(v_quote.rate_micros, v_seconds * 1000::bigint);
  if v_cost > 0 and (reserve_block(p_session, p_account, v_cost)).outcome <> 'reserved' then
    raise exception 'the block of session % is not to be had', p_session;
  end if;
  insert into sessions (id, account_id, capability, inputs, token_sha256, ticket, rate_version, rate_micros, max_seconds,
                        max_cost_micros, connect_seconds, key_id)
    values (p_session, p_account, p_capability,
            coalesce((select jsonb_object_agg(i.role, i.key) from jsonb_to_recordset(p_inputs) as i(role text, key text)), '{}'),
            p_token_sha256, p_ticket, v_quote.rate_version, v_quote.rate_micros, v_seconds, v_cost,
            v_settings.session_connect_seconds, p_key);
  if v_cap.cap_micros is not null then perform note_caps(p_account, p_key); end if;
  return row('reserved', null, v_seconds, v_cost, v_settings.session_connect_seconds)::open_outcome;
end $$;

-- Admits a batch, as in 0008. p_requests: as there, and `key_id`, which may be null or absent
create or replace function open_sessions(p_requests jsonb) returns table (place bigint, result open_outcome) language plpgsql as $$
declare
  v_room int := session_room();
  v_request record;
begin
  for v_request in
    select q.* from rows from (
      jsonb_to_recordset(p_requests) as (session text, account text, capability text, inputs jsonb, minutes int,
                                         token_sha256 text, ticket text, key_id text)
    ) with ordinality as q(session, account, capability, inputs, minutes, token_sha256, ticket, key_id, place)
    order by q.account, q.place
  loop
    place := v_request.place;
    result := open_session(v_request.session, v_request.account, v_request.capability, v_request.inputs, v_request.minutes,
                           decode(v_request.token_sha256, 'hex'), decode(v_request.ticket, 'hex'), v_room, v_request.key_id);
    if (result).outcome = 'reserved' then v_room := v_room - 1; end if;
    return next;
  end loop;
end $$;
