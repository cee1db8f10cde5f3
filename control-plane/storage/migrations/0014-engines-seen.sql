-- A capability has its engine from the moment an agent that offers it is first seen. It keeps it while agents come and
-- go: their absence makes jobs wait, not submits fail. To take a capability back there is the owner's switch.
-- Photo Swap has it from the beginning, because every agent's builtin engine does it.
alter table capabilities add column engine_seen_at timestamptz;

-- Notes capabilities that an agent offers; returns those that had no engine before. Names unknown here change nothing.
create function note_engines(p_names text[]) returns setof text language sql as $$
  update capabilities set has_engine = true, engine_seen_at = now()
    where name = any(p_names) and engine_seen_at is null
    returning name
$$;
