-- What a submit would hold, and what open sessions set aside.

create type job_quote as (
  -- quoted, or why a submit would be refused: capability_unavailable, unknown_input and wrong_kind (`detail`: the role)
  outcome text,
  detail text,
  hold_micros bigint,
  rate_micros bigint,
  minimum_micros bigint,
  unit text,
  rate_version bigint,
  -- What a hold may take: the balance less what is reserved.
  available_micros bigint
);

-- The checks and the price of submit_job without its locks, ceilings and writes.
-- p_inputs: [{role, key, kind}]
create function quote_job(p_account text, p_capability text, p_inputs jsonb, p_parameters jsonb) returns job_quote
language plpgsql stable as $$
declare
  v_role text;
  v_kind text;
  v_rates rates;
  v_rate bigint;
  v_available bigint;
begin
  if not exists (select 1 from capabilities c where c.name = p_capability and c.switched_on and c.has_engine) then
    return row('capability_unavailable', null, null, null, null, null, null, null)::job_quote;
  end if;
  select i.role, u.kind into v_role, v_kind
    from jsonb_to_recordset(p_inputs) as i(role text, key text, kind text)
    left join uploads u on u.file_key = i.key and u.account_id = p_account and u.completed_at is not null
    where u.kind is distinct from i.kind
    order by i.role limit 1;
  if found then
    return row(case when v_kind is null then 'unknown_input' else 'wrong_kind' end, v_role,
               null, null, null, null, null, null)::job_quote;
  end if;
  select * into strict v_rates from rates r
    where r.capability = p_capability and (r.account_id = p_account or r.account_id is null) and r.effective_at <= now()
    order by r.account_id is null, r.version desc limit 1;
  select (e.rate ->> 'rate_micros')::bigint into strict v_rate
    from jsonb_array_elements(v_rates.rates) with ordinality e(rate, n)
    where p_parameters @> (e.rate -> 'when') order by e.n limit 1;
  select b.available_micros - b.reserved_micros into strict v_available from account_balances b where b.account_id = p_account;
  return row('quoted', null, greatest(v_rates.minimum_micros, price_of(v_rate, v_rates.hold_milli_units)), v_rate,
             v_rates.minimum_micros, v_rates.unit, v_rates.version, v_available)::job_quote;
end $$;

-- Blocks that open sessions have set aside. No entries in the books: nothing is debited until a session is settled.
create table reservations (
  -- Names what it is for: a session's id.
  id text primary key,
  account_id text not null references account_balances,
  amount_micros bigint not null check (amount_micros > 0),
  reserved_at timestamptz not null default now(),
  released_at timestamptz
);
create index reservations_open on reservations (account_id) where released_at is null;

-- The last line of defence, as hold_needs_cover is for holds. A reservation may come to exceed what is available later:
-- a shortfall is collected whatever is reserved.
create function reservation_needs_cover() returns trigger language plpgsql as $$
begin
  raise exception 'a reservation on account % would leave % of available micro-dollars', new.account_id,
    new.available_micros - new.reserved_micros using errcode = 'check_violation', constraint = 'reservation_needs_cover';
end $$;
create trigger reservation_needs_cover before update on account_balances for each row
  when (new.reserved_micros > old.reserved_micros and new.available_micros - new.reserved_micros < 0)
  execute function reservation_needs_cover();

-- What is reserved follows the blocks. Blocks are released once and otherwise left as they are.
create function reservations_apply() returns trigger language plpgsql as $$
begin
  if tg_op = 'INSERT' then
    if new.released_at is not null then
      raise exception 'a block begins unreleased' using errcode = 'restrict_violation';
    end if;
    update account_balances set reserved_micros = reserved_micros + new.amount_micros where account_id = new.account_id;
  elsif tg_op = 'DELETE' or old.released_at is not null or new.released_at is null
      or (new.id, new.account_id, new.amount_micros, new.reserved_at)
         is distinct from (old.id, old.account_id, old.amount_micros, old.reserved_at) then
    raise exception 'a block is released once and never changed' using errcode = 'restrict_violation';
  else
    update account_balances set reserved_micros = reserved_micros - old.amount_micros where account_id = old.account_id;
  end if;
  return null;
end $$;
create trigger reservations_apply after insert or update or delete on reservations
  for each row execute function reservations_apply();
create trigger reservations_no_truncate before truncate on reservations
  for each statement execute function table_is_append_only();

create type reserve_outcome as (
  -- reserved; already (under this id, whatever has become of it since); insufficient_balance; conflict (the id is taken
  -- by another account or another amount)
  outcome text,
  -- What could be reserved before this call.
  available_micros bigint
);

-- Sets a block aside for as long as it is open. Said again it changes nothing.
create function reserve_block(p_id text, p_account text, p_amount bigint) returns reserve_outcome language plpgsql as $$
declare
  v_available bigint;
  v_before reservations;
begin
  select b.available_micros - b.reserved_micros into strict v_available
    from account_balances b where b.account_id = p_account for no key update;
  select * into v_before from reservations r where r.id = p_id;
  if found then
    return row(case when (v_before.account_id, v_before.amount_micros) = (p_account, p_amount) then 'already' else 'conflict' end,
               v_available)::reserve_outcome;
  end if;
  if v_available < p_amount then return row('insufficient_balance', v_available)::reserve_outcome; end if;
  insert into reservations (id, account_id, amount_micros) values (p_id, p_account, p_amount);
  return row('reserved', v_available)::reserve_outcome;
end $$;

-- Gives a block free. True: by this call; false: it was before, or there is none.
create function release_block(p_id text) returns boolean language plpgsql as $$
declare
  v_account text := (select r.account_id from reservations r where r.id = p_id);
begin
  -- In the order in which everything else locks: the account first.
  perform 1 from account_balances b where b.account_id = v_account for no key update;
  update reservations set released_at = now() where id = p_id and released_at is null;
  return found;
end $$;

-- The books of one account, recomputed from the transfers alone and compared with everything stored beside them; and
-- the whole ledger's sum. One row for each thing that does not agree: no row, the books are right.
create or replace function ledger_faults(p_account text) returns table (fault text, expected numeric, found numeric)
language sql stable as $$
  with booked as (
    select coalesce(sum(amount_micros) filter (where ledger_account = 'available'), 0) as available,
           coalesce(sum(amount_micros) filter (where ledger_account = 'held'), 0) as held,
           coalesce(sum(amount_micros) filter (where ledger_account = 'revenue'), 0) as spent,
           -coalesce(sum(amount_micros) filter (where ledger_account = 'funding'), 0) as topped_up
      from ledger_entries where account_id = p_account
  ), holds as (
    select h.id, h.job_id, h.amount_micros,
           count(r.id) filter (where r.kind in ('capture', 'release')) as resolutions,
           coalesce(sum(r.amount_micros) filter (where r.debit = 'held'), 0) as resolved,
           coalesce(sum(r.amount_micros) filter (where r.credit = 'revenue'), 0) as charged
      from ledger_transfers h left join ledger_transfers r on r.hold_id = h.id
      where h.account_id = p_account and h.kind = 'hold' group by h.id
  ), ended as (
    select usage_hour(created_at) as hour, capability, count(*) filter (where status = 'succeeded') as succeeded,
           count(*) filter (where status = 'failed') as failed, sum(charged_micros) as spent
      from jobs where account_id = p_account and settled_at is not null group by 1, 2
  ), checks(fault, expected, found) as (
    select 'available balance', available, (select available_micros::numeric from account_balances where account_id = p_account) from booked
    union all
    select 'held balance', held, (select held_micros from account_balances where account_id = p_account) from booked
    union all
    select 'spent balance', spent, (select spent_micros from account_balances where account_id = p_account) from booked
    union all
    select 'topped up balance', topped_up, (select topped_up_micros from account_balances where account_id = p_account) from booked
    union all
    select 'reserved balance', coalesce(sum(r.amount_micros), 0), (select reserved_micros from account_balances where account_id = p_account)
      from reservations r where r.account_id = p_account and r.released_at is null
    union all
    select 'spend by day', spent, (select coalesce(sum(spent_micros), 0) from spend_days where account_id = p_account) from booked
    union all
    select 'hours of usage counted wrongly', 0, count(*)
      from ended e full join (select * from usage_hours where account_id = p_account) u using (hour, capability)
      where (e.succeeded, e.failed, e.spent) is distinct from (u.succeeded, u.failed, u.spent_micros)
    union all
    select 'pending holds', held, (select coalesce(sum(amount_micros), 0) from holds where resolutions = 0) from booked
    union all
    select 'holds resolved other than once and in full', 0, count(*) from holds
      where resolutions > 1 or resolved <> case resolutions when 0 then 0 else amount_micros end
    union all
    select 'jobs without their hold', 0, count(*) from jobs j left join holds h on h.id = j.hold_id and h.job_id = j.id
      where j.account_id = p_account and h.id is null
    union all
    select 'holds without their job', 0, count(*) from holds h left join jobs j on j.hold_id = h.id and j.id = h.job_id
      where j.id is null
    union all
    select 'holds that outlive their job, or jobs their hold', 0, count(*) from jobs j join holds h on h.id = j.hold_id
      where j.account_id = p_account and (j.settled_at is not null) <> (h.resolutions = 1)
    union all
    select 'jobs charged other than booked', 0, count(*) from jobs j join holds h on h.id = j.hold_id
      where j.account_id = p_account and coalesce(j.charged_micros, 0) <> h.charged
    union all
    select 'sum of the whole ledger', 0, coalesce(sum(amount_micros), 0) from ledger_entries
    union all
    select 'sum of all stored balances', 0,
           coalesce(sum(available_micros + held_micros + spent_micros - topped_up_micros), 0) from account_balances
  )
  select * from checks where expected is distinct from found
$$;
