-- compatible-from: 0012
-- Sessions of the console: a browser acts as the key that it was signed in with, and keeps no key.

create table console_sessions (
  id text primary key,
  account_id text not null references accounts (id),
  -- The key that it acts as. Its end, addresses, scopes and limits hold for each call.
  key_id text not null references api_keys (id),
  token_sha256 bytea not null unique check (octet_length(token_sha256) = 32),
  created_at timestamptz not null default now(),
  -- To the minute.
  used_at timestamptz not null default now(),
  expires_at timestamptz not null,
  -- Where it was signed in from, and what the browser says that it is. Null: unknown.
  address inet,
  agent text check (length(agent) <= 300)
);
create index console_sessions_of_key on console_sessions (key_id);
create index console_sessions_of_account on console_sessions (account_id);
create index console_sessions_ends on console_sessions (expires_at);
create index console_sessions_uses on console_sessions (used_at);
