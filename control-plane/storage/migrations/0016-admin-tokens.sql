-- compatible-from: 0012
-- Named admin tokens, and the audit as a chain of hashes.

create table admin_tokens (
  id text primary key,
  -- Also of revoked tokens, since the audit names its actors by it.
  name text not null unique check (name ~ '^[a-z0-9][a-z0-9._@-]{0,62}$' and name <> 'bootstrap'),
  role text not null check (role in ('owner', 'support', 'read-only')),
  -- SHA-256 of the whole token, as of API keys.
  secret_sha256 bytea not null unique check (length(secret_sha256) = 32),
  created_at timestamptz not null default now(),
  -- When its present secret was made.
  issued_at timestamptz not null default now(),
  -- Null: never.
  expires_at timestamptz check (expires_at > issued_at),
  revoked_at timestamptz,
  -- To the minute, so that a call seldom writes.
  last_used_at timestamptz
);

-- `actor` is the name of the token. `stated` is what the caller says, which is not proven.
alter table audit
  add column stated text,
  add column role text check (role in ('owner', 'support', 'read-only')),
  add column token_id text,
  add column seq bigint,
  add column previous bytea check (length(previous) = 32),
  add column hash bytea check (length(hash) = 32);

-- Place and hash of the last entry. Its row serialises whoever writes an entry, until the end of their transaction.
create table audit_head (
  only_row boolean primary key default true check (only_row),
  seq bigint not null,
  hash bytea not null
);
insert into audit_head (seq, hash) values (0, decode(repeat('00', 32), 'hex'));

-- Returns an entry as JSON, which its hash is the SHA-256 of. Its bytes never change: later columns stay out of it.
create function audit_line(p audit) returns text language sql stable as $$
  select json_build_object(
    'seq', p.seq, 'at', to_char(p.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'actor', p.actor, 'role', p.role, 'token_id', p.token_id, 'stated', p.stated,
    'action', p.action, 'account_id', p.account_id, 'subject', p.subject, 'before', p.before, 'after', p.after,
    'request_id', p.request_id, 'previous', encode(p.previous, 'hex'))::text
$$;

-- Returns the entry as the next one of the chain.
create function chained(p audit) returns audit language plpgsql as $$
declare
  v_head audit_head;
begin
  -- Earlier releases write what was stated as the actor; theirs is the bootstrap token.
  if p.role is null then
    p.stated := p.actor;
    p.actor := 'bootstrap';
    p.role := 'owner';
  end if;
  select * into strict v_head from audit_head for update;
  p.seq := v_head.seq + 1;
  p.previous := v_head.hash;
  p.hash := sha256(convert_to(audit_line(p), 'UTF8'));
  update audit_head set seq = p.seq, hash = p.hash;
  return p;
end $$;

-- Entries of earlier releases.
alter table audit disable trigger audit_no_change;
do $$
declare
  v_entry audit;
begin
  for v_entry in select * from audit order by id loop
    v_entry := chained(v_entry);
    update audit set (actor, stated, role, seq, previous, hash)
      = row(v_entry.actor, v_entry.stated, v_entry.role, v_entry.seq, v_entry.previous, v_entry.hash)
      where id = v_entry.id;
  end loop;
end $$;
alter table audit enable trigger audit_no_change;
alter table audit
  alter column role set not null, alter column seq set not null, alter column previous set not null,
  alter column hash set not null;
create unique index audit_by_seq on audit (seq);

create function chain_audit() returns trigger language plpgsql as $$
begin
  return chained(new);
end $$;
create trigger audit_chain before insert on audit for each row execute function chain_audit();
