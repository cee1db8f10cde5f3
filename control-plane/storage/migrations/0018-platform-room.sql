-- compatible-from: 0016
-- Far from the platform's ceiling a submit does not count what is in flight.

-- What was in flight at a count, and at most may be now: every job has a hold, and every hold takes the next number of
-- ledger_transfers, so since then at most as many jobs were added as numbers were taken. Ends, and numbers that others
-- took, make it too high, never too low, until somebody counts again. Nothing is lost with it: a crash of the server,
-- which empties it, has somebody count.
create unlogged table platform_in_flight (
  only_row boolean primary key default true check (only_row),
  -- Every job in flight whose hold has at most the number `up_to` is among those counted. Null: nobody has counted.
  counted bigint,
  up_to bigint,
  -- Of the next count: a number, and a transaction begun after it had been taken. When all before that one have ended,
  -- no hold up to the number can appear any more. A count says nothing about jobs of transactions that are under way.
  next_up_to bigint not null,
  next_after xid8 not null
) with (fillfactor = 50);

-- Jobs in flight, or `p_most` when there are more. By their index whatever the planner makes of it: while a table is
-- small, reading all jobs there ever were looks cheaper to it, and takes ten times as long.
create function count_in_flight(p_most int) returns int language sql stable set enable_seqscan = off as $$
  select count(*)::int from (select 1 from jobs where settled_at is null limit p_most) n
$$;

-- How many more jobs the platform takes, or fewer, but at least 64, while there is room for more. Close to the ceiling,
-- admissions are made to wait for one another (until their transaction ends); far from it, nobody waits. Those that began
-- far from it are not waited for, so the ceiling may be overstepped by what is under way at that moment: 64 for each
-- control plane (2 batches of 32).
create or replace function platform_room() returns int language plpgsql as $$
declare
  v_ceiling int := (select jobs_in_flight from settings);
  v_known platform_in_flight;
  v_last bigint;
  v_room int;
  v_keeps boolean;
  v_complete boolean;
begin
  select * into v_known from platform_in_flight;
  select s.last_value into v_last from ledger_transfers_id_seq s;
  if v_known.counted + v_last - v_known.up_to <= v_ceiling - 64 and v_last >= v_known.up_to then
    return v_ceiling - (v_known.counted + v_last - v_known.up_to);
  end if;

  -- One of those that count at the same time keeps it for the others; nobody waits for that. A transaction that has its
  -- id already may be older than some that took their numbers before this, and keeps nothing.
  v_keeps := pg_current_xact_id_if_assigned() is null and pg_try_advisory_xact_lock(7362652636266226);
  if v_keeps then
    select * into v_known from platform_in_flight;
    v_complete := v_known.next_after <= pg_snapshot_xmin(pg_current_snapshot());
  end if;
  v_room := v_ceiling - count_in_flight(v_ceiling);
  if v_room < 64 then
    perform pg_advisory_xact_lock(7362652636266224);
    v_room := v_ceiling - count_in_flight(v_ceiling);
  elsif v_keeps then
    select s.last_value into v_last from ledger_transfers_id_seq s;
    -- A submit has an id from its lock on a balance on, before it takes a number: those who have taken one are before this.
    if v_complete then
      update platform_in_flight set counted = v_ceiling - v_room, up_to = next_up_to,
                                    next_up_to = v_last, next_after = pg_current_xact_id();
    elsif v_complete is null then
      insert into platform_in_flight (next_up_to, next_after) values (v_last, pg_current_xact_id());
    elsif v_known.next_after > pg_current_xact_id() then
      -- Restored from a backup of another server.
      update platform_in_flight set next_up_to = v_last, next_after = pg_current_xact_id();
    end if;
  end if;
  return v_room;
end $$;
