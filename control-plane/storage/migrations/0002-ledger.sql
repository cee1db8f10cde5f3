-- The books: double entry, append-only, in micro-dollars. See docs/guide/owner/books.md.

-- Balances of an account's four ledger accounts. Only the trigger on ledger_transfers changes them.
create table account_balances (
  account_id text primary key references accounts,
  -- Top-ups − charges − pending holds. Only the collection of a shortfall makes it negative.
  available_micros bigint not null default 0,
  held_micros bigint not null default 0 check (held_micros >= 0),
  spent_micros bigint not null default 0 check (spent_micros >= 0),
  -- At most 2^53 − 1, so that every amount is exact as a JSON number.
  topped_up_micros bigint not null default 0 check (topped_up_micros between 0 and 9007199254740991),
  -- Set aside by open sessions. It counts in admission but is not an entry in the books.
  reserved_micros bigint not null default 0 check (reserved_micros >= 0),
  -- Unresolved holds, which are the jobs in flight: a job is written with its hold, and settled with the capture or
  -- release of the hold.
  holds_open int not null default 0 check (holds_open >= 0),
  constraint books_balance check (available_micros + held_micros + spent_micros = topped_up_micros)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);

-- Each row moves one amount from `debit` to `credit`, so debits always equal credits.
--   top_up     funding   → available   incoming money
--   hold       available → held        a submit; pending until resolved
--   capture    held      → revenue     the job succeeded: the charge, as far as the hold covers it
--   excess     held      → available   the part of the hold beyond the charge
--   shortfall  available → revenue     the part of the charge beyond the hold
--   release    held      → available   the job failed: the whole hold
--   session    available → revenue     a live session ended: the charge
create table ledger_transfers (
  id bigint generated always as identity primary key,
  account_id text not null references account_balances,
  kind text not null,
  debit text not null,
  credit text not null,
  amount_micros bigint not null check (amount_micros >= 0),
  -- The hold that this transfer resolves.
  hold_id bigint references ledger_transfers,
  job_id text,
  -- The session that this transfer charges at its end. A session has no hold, because a block was set aside for it. The
  -- foreign key is added with the table of sessions.
  session_id text,
  -- Identifies a top-up, so that a repeated one is booked once.
  reference text,
  created_at timestamptz not null default now(),
  constraint known_transfer check ((kind, debit, credit) in (
    ('top_up', 'funding', 'available'),
    ('hold', 'available', 'held'),
    ('capture', 'held', 'revenue'),
    ('excess', 'held', 'available'),
    ('shortfall', 'available', 'revenue'),
    ('release', 'held', 'available'),
    ('session', 'available', 'revenue')
  )),
  constraint resolution_names_its_hold
    check ((kind in ('capture', 'excess', 'shortfall', 'release')) = (hold_id is not null)),
  constraint hold_names_its_job check ((kind in ('top_up', 'session')) = (job_id is null)),
  constraint charge_names_its_session check ((kind = 'session') = (session_id is not null)),
  constraint session_charge_moves_something check (kind <> 'session' or amount_micros > 0),
  constraint top_up_moves_something check (kind <> 'top_up' or amount_micros > 0)
);
create index ledger_transfers_by_account on ledger_transfers (account_id, id);

-- A hold is resolved once: captured or released, never both, with at most one excess and one shortfall.
create unique index ledger_hold_resolved_once
  on ledger_transfers (hold_id, (case kind when 'release' then 'capture' else kind end)) where hold_id is not null;
create unique index ledger_top_up_once on ledger_transfers (account_id, reference) where reference is not null;
create unique index ledger_session_charged_once on ledger_transfers (session_id) where session_id is not null;

-- Charges by UTC day, so that the spend of a year is a sum of days. The trigger on ledger_transfers derives it.
create table spend_days (
  account_id text not null references accounts,
  day date not null,
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (account_id, day)
) with (fillfactor = 50);

-- The two postings of each transfer. The sum of an account's postings is its balance; all postings sum to zero.
create view ledger_entries as
  select id as transfer_id, account_id, debit as ledger_account, -amount_micros as amount_micros, kind, job_id, created_at,
         session_id
    from ledger_transfers
  union all
  select id, account_id, credit, amount_micros, kind, job_id, created_at, session_id from ledger_transfers;

create function ledger_apply() returns trigger language plpgsql as $$
begin
  update account_balances set
    available_micros = available_micros
      + case when new.credit = 'available' then new.amount_micros else 0 end
      - case when new.debit = 'available' then new.amount_micros else 0 end,
    held_micros = held_micros
      + case when new.credit = 'held' then new.amount_micros else 0 end
      - case when new.debit = 'held' then new.amount_micros else 0 end,
    spent_micros = spent_micros + case when new.credit = 'revenue' then new.amount_micros else 0 end,
    topped_up_micros = topped_up_micros + case when new.debit = 'funding' then new.amount_micros else 0 end,
    -- One capture or one release resolves a hold; ledger_hold_resolved_once ensures this.
    holds_open = holds_open + case new.kind when 'hold' then 1 when 'capture' then -1 when 'release' then -1 else 0 end
  where account_id = new.account_id;
  if new.credit = 'revenue' then
    insert into spend_days as d (account_id, day, spent_micros)
    values (new.account_id, (new.created_at at time zone 'UTC')::date, new.amount_micros)
    on conflict (account_id, day) do update set spent_micros = d.spent_micros + excluded.spent_micros;
  end if;
  return null;
end $$;
create trigger ledger_apply after insert on ledger_transfers for each row execute function ledger_apply();

create function table_is_append_only() returns trigger language plpgsql as $$
begin
  raise exception '% on %: its rows are never changed', tg_op, tg_table_name using errcode = 'restrict_violation';
end $$;
create trigger ledger_no_change before update or delete on ledger_transfers
  for each row execute function table_is_append_only();
create trigger ledger_no_truncate before truncate on ledger_transfers
  for each statement execute function table_is_append_only();

-- The last line of defence: a hold cannot take more than is available, whatever balance a statement assumed.
create function hold_needs_cover() returns trigger language plpgsql as $$
begin
  raise exception 'a hold on account % would leave % of available micro-dollars', new.account_id,
    new.available_micros - new.reserved_micros using errcode = 'check_violation', constraint = 'hold_needs_cover';
end $$;
create trigger hold_needs_cover before update on account_balances for each row
  when (new.held_micros > old.held_micros and new.available_micros - new.reserved_micros < 0)
  execute function hold_needs_cover();

-- Blocks that open sessions set aside. They are not entries in the books: a session is debited only when it is settled.
create table reservations (
  -- Id of the session.
  id text primary key,
  account_id text not null references account_balances,
  amount_micros bigint not null check (amount_micros > 0),
  reserved_at timestamptz not null default now(),
  released_at timestamptz
);
create index reservations_open on reservations (account_id) where released_at is null;

-- The last line of defence, like hold_needs_cover for holds. Reservations may later exceed the available amount,
-- because a shortfall is collected in spite of them.
create function reservation_needs_cover() returns trigger language plpgsql as $$
begin
  raise exception 'a reservation on account % would leave % of available micro-dollars', new.account_id,
    new.available_micros - new.reserved_micros using errcode = 'check_violation', constraint = 'reservation_needs_cover';
end $$;
create trigger reservation_needs_cover before update on account_balances for each row
  when (new.reserved_micros > old.reserved_micros and new.available_micros - new.reserved_micros < 0)
  execute function reservation_needs_cover();

-- Adjusts the reserved sum to the blocks. A block is released once and otherwise never changes.
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
  -- reserved; already (under this id, even if released since); insufficient_balance; conflict (the id belongs to
  -- another account or amount)
  outcome text,
  -- Amount that could be reserved before this call.
  available_micros bigint
);

-- Sets a block aside until it is released. Repeating the call changes nothing.
create function reserve_block(p_id text, p_account text, p_amount bigint) returns reserve_outcome language plpgsql as $$
declare
  v_available bigint;
  v_before reservations;
begin
  select b.available_micros - b.reserved_micros into strict v_available
    from account_balances b where b.account_id = p_account for no key update;
  select * into v_before from reservations r where r.id = p_id;
  if not found then
    if v_available < p_amount then return row('insufficient_balance', v_available)::reserve_outcome; end if;
    -- The lock covers only this account, so another account may take the id between the select and the insert.
    insert into reservations (id, account_id, amount_micros) values (p_id, p_account, p_amount) on conflict (id) do nothing;
    if found then return row('reserved', v_available)::reserve_outcome; end if;
    select * into strict v_before from reservations r where r.id = p_id;
  end if;
  return row(case when (v_before.account_id, v_before.amount_micros) = (p_account, p_amount) then 'already' else 'conflict' end,
             v_available)::reserve_outcome;
end $$;

-- Releases a block. True: by this call; false: it was already released or does not exist.
create function release_block(p_id text) returns boolean language plpgsql as $$
declare
  v_account text := (select r.account_id from reservations r where r.id = p_id);
begin
  -- All functions lock the account first.
  perform 1 from account_balances b where b.account_id = v_account for no key update;
  update reservations set released_at = now() where id = p_id and released_at is null;
  return found;
end $$;
