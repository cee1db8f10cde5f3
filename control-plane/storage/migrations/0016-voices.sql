-- Voices that speech is converted to, beside those of files, and samples of how voices sound.

-- Those that the service owner added by command. One takes the place of a file's with the same id.
create table voices (
  id text primary key,
  -- As its file had it.
  definition jsonb not null,
  added_at timestamptz not null default now()
);

-- One synthesised sample for each way to sound, whichever voices sound so. An object that no row names any more is an
-- orphan, and goes with them.
create table voice_previews (
  -- SHA-256, in hex, of what decides on the sound.
  sound text primary key,
  -- null: it is not made yet.
  object_key text unique,
  made_at timestamptz,
  -- While it is not made: when it is tried, how often it was, and why that failed.
  due_at timestamptz not null default now(),
  attempts int not null default 0,
  last_error text,
  -- Last time that a process offered a voice which sounds so.
  wanted_at timestamptz not null default now(),
  check ((object_key is null) = (made_at is null))
);
create index voice_previews_due on voice_previews (due_at) where object_key is null;
