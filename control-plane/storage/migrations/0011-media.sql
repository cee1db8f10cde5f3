-- Deletion of files that nobody may use any more, and the samples of voices.

-- Objects to be deleted from the store. One transaction moves a file from `uploads` or its job to this table; from then
-- on nothing can use it. When the object is gone, the row is replaced by one in `media_deletions`.
create table media_removals (
  object_key text primary key,
  kind text not null check (kind in ('upload', 'output', 'orphan')),
  account_id text references accounts,
  job_id text,
  size_bytes bigint not null,
  removed_by text not null check (removed_by in ('retention', 'owner', 'admin')),
  -- Id of the owner's key, or the name that an admin stated.
  actor text,
  removed_at timestamptz not null default now(),
  due_at timestamptz not null default now(),
  attempts int not null default 0,
  last_error text
);
create index media_removals_due on media_removals (due_at);

-- Append-only.
create table media_deletions (
  id bigint generated always as identity primary key,
  object_key text not null,
  kind text not null,
  account_id text,
  job_id text,
  size_bytes bigint not null,
  removed_by text not null,
  actor text,
  removed_at timestamptz not null,
  deleted_at timestamptz not null default now()
);
create index media_deletions_by_account on media_deletions (account_id, id desc);
create trigger media_deletions_no_change before update or delete on media_deletions
  for each row execute function table_is_append_only();
create trigger media_deletions_no_truncate before truncate on media_deletions
  for each statement execute function table_is_append_only();

-- Voices that the service owner added by command. They replace voices from files with the same id.
create table voices (
  id text primary key,
  -- Definition as in a voice file.
  definition jsonb not null,
  added_at timestamptz not null default now()
);

-- One synthesised sample for each sound, shared by all voices with this sound. An object that no row names is an
-- orphan, and is deleted like other orphans.
create table voice_previews (
  -- SHA-256, in hex, of everything that determines the sound.
  sound text primary key,
  -- Null: not made yet.
  object_key text unique,
  made_at timestamptz,
  -- While it is not made: time of the next try, number of tries, and the error of the last.
  due_at timestamptz not null default now(),
  attempts int not null default 0,
  last_error text,
  -- Last time that a process offered a voice with this sound.
  wanted_at timestamptz not null default now(),
  check ((object_key is null) = (made_at is null))
);
create index voice_previews_due on voice_previews (due_at) where object_key is null;
