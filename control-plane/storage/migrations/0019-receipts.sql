-- compatible-from: 0012
-- Receipts: signed statements of deletions.

-- SHA-256 of the file in hex, so that whoever has a copy knows which file a receipt is about. Null: not known, as of
-- orphans.
alter table media_removals add column sha256 text;
alter table media_deletions add column sha256 text;

create index media_deletions_by_job on media_deletions (job_id) where job_id is not null;
create index media_deletions_by_object on media_deletions (object_key);

-- Ed25519 keys that sign receipts. The one that has not retired signs; all are published.
create table receipt_keys (
  -- Thumbprint of the public key (RFC 7638), which receipts name.
  id text primary key,
  -- JSON Web Keys.
  private_key jsonb not null,
  public_key jsonb not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);
create unique index receipt_keys_one_signs on receipt_keys ((true)) where retired_at is null;
