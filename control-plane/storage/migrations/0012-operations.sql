-- The audit, and periodic chores that any process may run.

-- One row for each change by the service owner, written in the transaction of the change.
create table audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  -- As the caller states it, not proven: any holder of the admin token may state any name.
  actor text not null,
  -- Name of the admin service's method.
  action text not null,
  account_id text,
  -- The changed thing: the id of a key, the name of a capability.
  subject text not null,
  -- The changed part before and after; never a secret.
  before jsonb,
  after jsonb,
  request_id text
);
create index audit_by_account on audit (account_id, id desc) where account_id is not null;
create index audit_by_time on audit (at);
create trigger audit_no_change before update or delete on audit for each row execute function table_is_append_only();
create trigger audit_no_truncate before truncate on audit for each statement execute function table_is_append_only();

-- Periodic chores, once for all processes; `result` is the result of the latest run.
create table chores (
  name text primary key,
  due_at timestamptz not null default now(),
  finished_at timestamptz,
  result jsonb
);

-- Makes debts due now that are due further ahead than any lease or pause allows. They were written before the clock was
-- set back, and would otherwise wait until the clock reaches that time again. The limits are slightly longer than the
-- longest pauses, because a statement's times may be read by one that began earlier. Paying a debt twice is harmless.
create function bring_forward() returns void language plpgsql set enable_seqscan = off as $$
begin
  -- Debts are claimed for 10 s, and put off by at most 3 s.
  update outbox set due_at = now()
    where id = any(array(
      select o.id from outbox o
      where o.kind in ('renderjob', 'event') and o.due_at > now() + interval '1 minute'
      limit 1000 for no key update skip locked));
  -- Webhooks wait eleven minutes before their last attempt. A delivery that is being tried may be leased for 30 s.
  update deliveries set
      due_at = case when due_at > now() + interval '15 minutes' then now() else due_at end,
      leased_until = case when leased_until > now() + interval '2 minutes' then now() + interval '30 seconds' else leased_until end
    where id = any(array(
      select d.id from deliveries d
      where d.state = 'pending'
        and (d.due_at > now() + interval '15 minutes' or d.leased_until > now() + interval '2 minutes')
      limit 1000 for no key update skip locked));
  -- Removals of files are put off by at most an hour.
  update media_removals set due_at = now()
    where object_key = any(array(
      select m.object_key from media_removals m
      where m.due_at > now() + interval '61 minutes'
      limit 1000 for no key update skip locked));
end $$;
