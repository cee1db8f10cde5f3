-- Who changed what, and what is done now and then by whichever process comes first.

-- One row for each change that the service owner makes, written in the transaction that makes it.
create table audit (
  id bigint generated always as identity primary key,
  at timestamptz not null default now(),
  -- As stated by the caller, not proven: whoever holds the admin token may state any name.
  actor text not null,
  -- Name of the method of the admin service.
  action text not null,
  account_id text,
  -- What was changed: the id of a key, the name of a capability.
  subject text not null,
  -- What changed, as it was and as it is; never a secret.
  before jsonb,
  after jsonb,
  request_id text
);
create index audit_by_account on audit (account_id, id desc) where account_id is not null;
create index audit_by_time on audit (at);
create trigger audit_no_change before update or delete on audit for each row execute function table_is_append_only();
create trigger audit_no_truncate before truncate on audit for each statement execute function table_is_append_only();

-- What is due now and then, once for all processes; `result` is what the last one found.
create table chores (
  name text primary key,
  due_at timestamptz not null default now(),
  finished_at timestamptz,
  result jsonb
);

-- What is owed, and due further ahead than any lease or pause puts it, was written before the clock was set back: it is due
-- now. Else it would wait until the clock is there again. A little more than the longest is allowed for, because what a
-- statement writes by its clock is read by one that began before it. What is paid twice so is harmless.
create function bring_forward() returns void language plpgsql set enable_seqscan = off as $$
begin
  -- Debts are claimed for 10 s, and put off by 3 s at most.
  update outbox set due_at = now()
    where id = any(array(
      select o.id from outbox o
      where o.kind in ('renderjob', 'event') and o.due_at > now() + interval '1 minute'
      limit 1000 for no key update skip locked));
  -- Webhooks wait eleven minutes before their last attempt. One that is being tried may be until its lease of 30 s is over.
  update deliveries set
      due_at = case when due_at > now() + interval '15 minutes' then now() else due_at end,
      leased_until = case when leased_until > now() + interval '2 minutes' then now() + interval '30 seconds' else leased_until end
    where id = any(array(
      select d.id from deliveries d
      where d.state = 'pending'
        and (d.due_at > now() + interval '15 minutes' or d.leased_until > now() + interval '2 minutes')
      limit 1000 for no key update skip locked));
  -- Removals of files are put off by an hour at most.
  update media_removals set due_at = now()
    where object_key = any(array(
      select m.object_key from media_removals m
      where m.due_at > now() + interval '61 minutes'
      limit 1000 for no key update skip locked));
end $$;
