-- compatible-from: 0012
-- Every account that submits a callback has a signing secret, and a secret is replaced in two steps.

-- Returns a new secret in the form of Standard Webhooks: `whsec_` and 32 bytes in base64, made of 244 random bits.
create function new_webhook_secret() returns text language sql volatile as $$
  select 'whsec_' || encode(sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())), 'base64')
$$;

-- The secret that replaces the current one when it is promoted; until then it signs beside it. A table of its own, since
-- earlier releases sign with every secret of the other table.
create table webhook_next_secrets (
  account_id text primary key references accounts,
  secret text not null,
  created_at timestamptz not null default now()
);

-- Makes the secret of an account that has none.
create function make_webhook_secret(p_account text) returns void language plpgsql as $$
begin
  if not exists (select 1 from webhook_secrets s where s.account_id = p_account and s.retires_at is null) then
    insert into webhook_secrets (account_id, secret) values (p_account, new_webhook_secret())
      on conflict (account_id) where retires_at is null do nothing;
  end if;
end $$;

-- The transaction that admits a job with a callback makes the secret that signs its delivery.
create function owe_webhook_secret() returns trigger language plpgsql as $$
begin
  perform make_webhook_secret(new.account_id);
  return null;
end $$;
create trigger jobs_owe_webhook_secret after insert on jobs
  for each row when (new.callback_url is not null) execute function owe_webhook_secret();

-- Jobs and deliveries of earlier releases.
select make_webhook_secret(a.id) from accounts a
  where exists (select 1 from deliveries d where d.account_id = a.id)
     or exists (select 1 from jobs j where j.account_id = a.id and j.settled_at is null and j.callback_url is not null);
