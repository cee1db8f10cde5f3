-- Capabilities and their rates.

create table capabilities (
  name text primary key,
  -- The service owner's switch.
  switched_on boolean not null default true,
  -- Whether this installation has an engine for it. Without one the capability is off whatever the switch says.
  has_engine boolean not null default false,
  -- Time when an agent that offers it was first seen. The capability keeps its engine while agents come and go: without
  -- agents, jobs wait but submits succeed. Only the owner's switch takes a capability back. Photo Swap has an engine
  -- from the beginning, because every agent's builtin engine supports it.
  engine_seen_at timestamptz
);
insert into capabilities (name, has_engine) values
  ('character-swap', false),
  ('face-swap', false),
  ('face-swap-image', true),
  ('motion-control', false),
  ('avatar', false),
  ('lip-sync', false),
  ('full-live-swap', false),
  ('voice', false);

-- Records the capabilities that an agent offers; returns those that had no engine before. Unknown names are ignored.
create function note_engines(p_names text[]) returns setof text language sql as $$
  update capabilities set has_engine = true, engine_seen_at = now()
    where name = any(p_names) and engine_seen_at is null
    returning name
$$;

-- Append-only: a change is a new row, and a job keeps the version of its quote. An account's own rates take precedence
-- over the public ones (account_id null). Of each, the newest one counts.
create table rates (
  version bigint generated always as identity primary key,
  capability text not null references capabilities,
  account_id text references accounts,
  unit text not null check (unit in ('image', 'second', 'minute')),
  -- [{"when": {parameter: value}, "rate_micros": n}]; the first entry whose `when` matches counts.
  rates jsonb not null,
  minimum_micros bigint not null check (minimum_micros >= 0),
  -- Units × 1000 that the hold of a submit assumes.
  hold_milli_units bigint not null check (hold_milli_units > 0),
  effective_at timestamptz not null default now(),
  created_at timestamptz not null default now(),
  -- The last rate has no condition, so every submit has a rate.
  constraint a_rate_for_everything check (jsonb_array_length(rates) > 0 and (rates -> -1 -> 'when') = '{}'::jsonb)
);
create index rates_current on rates (capability, account_id, version desc);
create trigger rates_no_change before update or delete on rates for each row execute function table_is_append_only();

insert into rates (capability, unit, minimum_micros, hold_milli_units, rates) values
  ('character-swap', 'second', 400000, 60000,
    '[{"when": {"resolution": "2k"}, "rate_micros": 160000}, {"when": {}, "rate_micros": 80000}]'),
  ('face-swap', 'second', 100000, 60000,
    '[{"when": {"output_resolution_p": "480"}, "rate_micros": 15000}, {"when": {"output_resolution_p": "1080"}, "rate_micros": 40000}, {"when": {}, "rate_micros": 25000}]'),
  ('face-swap-image', 'image', 40000, 1500, '[{"when": {}, "rate_micros": 40000}]'),
  ('motion-control', 'second', 300000, 60000, '[{"when": {}, "rate_micros": 60000}]'),
  ('avatar', 'second', 200000, 120000,
    '[{"when": {"output_resolution_p": "480"}, "rate_micros": 20000}, {"when": {"output_resolution_p": "1080"}, "rate_micros": 50000}, {"when": {}, "rate_micros": 30000}]'),
  ('lip-sync', 'second', 100000, 60000,
    '[{"when": {"output_resolution_p": "480"}, "rate_micros": 15000}, {"when": {"output_resolution_p": "1080"}, "rate_micros": 40000}, {"when": {}, "rate_micros": 25000}]'),
  ('full-live-swap', 'minute', 0, 1000, '[{"when": {}, "rate_micros": 600000}]'),
  ('voice', 'minute', 0, 1000, '[{"when": {}, "rate_micros": 60000}]');

-- Returns rate × units, rounded half up to a micro-dollar, like priceOf in common/money.ts.
create function price_of(rate_micros bigint, milli_units bigint) returns bigint language sql immutable strict as $$
  select div(rate_micros::numeric * milli_units + 500, 1000)::bigint
$$;
