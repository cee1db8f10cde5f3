-- Uploads by file key. The object store has the bytes under the same key.

create table uploads (
  file_key text primary key,
  account_id text not null references accounts,
  reserved_at timestamptz not null default now(),
  completed_at timestamptz,
  -- Given up by its caller, or because it took too long. The object is deleted at once, and again before the row is
  -- deleted, because a write under way may have put it back.
  abandoned_at timestamptz,
  kind text check (kind in ('image', 'audio', 'video')),
  content_type text,
  size_bytes bigint check (size_bytes >= 0),
  sha256 bytea check (length(sha256) = 32),
  constraint complete_or_abandoned check (completed_at is null or abandoned_at is null),
  constraint complete_is_described check (
    completed_at is null or (kind is not null and content_type is not null and size_bytes is not null and sha256 is not null))
);
create index uploads_unfinished on uploads (reserved_at) where completed_at is null;
create index uploads_by_account on uploads (account_id, file_key);
create index uploads_by_age on uploads (completed_at) where completed_at is not null;
