-- The books: double entry, append-only, in micro-dollars. docs/books.md explains them.

-- Balances of an account's four ledger accounts, kept by the trigger on ledger_transfers and by nothing else.
create table account_balances (
  account_id text primary key references accounts,
  -- Top-ups − charges − pending holds. Below zero only by a shortfall that was collected.
  available_micros bigint not null default 0,
  held_micros bigint not null default 0 check (held_micros >= 0),
  spent_micros bigint not null default 0 check (spent_micros >= 0),
  -- At most 2^53 − 1, so that every amount is exact as a JSON number.
  topped_up_micros bigint not null default 0 check (topped_up_micros between 0 and 9007199254740991),
  -- Set aside by open sessions: counts in admission, is no entry in the books.
  reserved_micros bigint not null default 0 check (reserved_micros >= 0),
  constraint books_balance check (available_micros + held_micros + spent_micros = topped_up_micros)
) with (fillfactor = 50);

-- Each row moves one amount from `debit` to `credit`, so debits equal credits whatever is written.
--   top_up     funding   → available   money came in
--   hold       available → held        a submit; pending until resolved
--   capture    held      → revenue     the job succeeded: the charge, as far as the hold covers it
--   excess     held      → available   what the hold had beyond the charge
--   shortfall  available → revenue     what the charge had beyond the hold
--   release    held      → available   the job failed: all of it
create table ledger_transfers (
  id bigint generated always as identity primary key,
  account_id text not null references account_balances,
  kind text not null,
  debit text not null,
  credit text not null,
  amount_micros bigint not null check (amount_micros >= 0),
  -- The hold that this resolves.
  hold_id bigint references ledger_transfers,
  job_id text,
  -- Names a top-up, so that one sent twice is booked once.
  reference text,
  created_at timestamptz not null default now(),
  constraint known_transfer check ((kind, debit, credit) in (
    ('top_up', 'funding', 'available'),
    ('hold', 'available', 'held'),
    ('capture', 'held', 'revenue'),
    ('excess', 'held', 'available'),
    ('shortfall', 'available', 'revenue'),
    ('release', 'held', 'available')
  )),
  constraint resolution_names_its_hold
    check ((kind in ('capture', 'excess', 'shortfall', 'release')) = (hold_id is not null)),
  constraint hold_names_its_job check (kind = 'top_up' or job_id is not null),
  constraint top_up_moves_something check (kind <> 'top_up' or amount_micros > 0)
);
create index ledger_transfers_by_account on ledger_transfers (account_id, id);
-- A hold is resolved once: captured or released, never both; with at most one excess and one shortfall.
create unique index ledger_hold_resolved_once
  on ledger_transfers (hold_id, (case kind when 'release' then 'capture' else kind end)) where hold_id is not null;
create unique index ledger_top_up_once on ledger_transfers (account_id, reference) where reference is not null;

-- Charges by UTC day, so that the spend of a year is a sum of days. Derived from ledger_transfers by its trigger.
create table spend_days (
  account_id text not null references accounts,
  day date not null,
  spent_micros bigint not null check (spent_micros >= 0),
  primary key (account_id, day)
) with (fillfactor = 50);

-- The two postings of each transfer: what an account sums to is what it holds; all postings sum to zero.
create view ledger_entries as
  select id as transfer_id, account_id, debit as ledger_account, -amount_micros as amount_micros, kind, job_id, created_at
    from ledger_transfers
  union all
  select id, account_id, credit, amount_micros, kind, job_id, created_at from ledger_transfers;

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
    topped_up_micros = topped_up_micros + case when new.debit = 'funding' then new.amount_micros else 0 end
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

-- The last line of defence: whatever a statement believed about the balance, a hold cannot take what is not there.
create function hold_needs_cover() returns trigger language plpgsql as $$
begin
  raise exception 'a hold on account % would leave % of available micro-dollars', new.account_id,
    new.available_micros - new.reserved_micros using errcode = 'check_violation', constraint = 'hold_needs_cover';
end $$;
create trigger hold_needs_cover before update on account_balances for each row
  when (new.held_micros > old.held_micros and new.available_micros - new.reserved_micros < 0)
  execute function hold_needs_cover();
