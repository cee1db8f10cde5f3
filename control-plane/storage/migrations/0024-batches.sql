-- compatible-from: 0012
-- Batches: jobs that one call submits, all or none.

create table batches (
  id text primary key,
  account_id text not null references accounts,
  -- Number of its jobs, and how many have not ended.
  jobs int not null check (jobs > 0),
  unsettled int not null check (unsettled between 0 and jobs),
  -- Sum of the holds of its jobs.
  hold_micros bigint not null,
  callback_url text,
  metadata jsonb,
  idempotency_key text,
  body_sha256 bytea not null,
  created_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint finished_when_settled check ((unsettled = 0) = (finished_at is not null))
) with (fillfactor = 50);
create index batches_by_account on batches (account_id, id desc);
create unique index batches_by_idempotency_key on batches (account_id, idempotency_key) where idempotency_key is not null;

-- Null: submitted alone. The index is the place among the items, from 0.
alter table jobs add column batch_id text, add column batch_index int;
create unique index jobs_by_batch on jobs (batch_id, batch_index) where batch_id is not null;

-- Returns a batch as its owner reads it, and as its webhook tells it.
create function batch_record(p_batch text) returns jsonb language sql stable as $$
  select jsonb_build_object(
    'id', b.id,
    'status', case when b.finished_at is null then 'processing' else 'finished' end,
    'jobs', b.jobs,
    'counts', jsonb_build_object(
      'queued', count(*) filter (where j.status = 'queued'), 'processing', count(*) filter (where j.status = 'processing'),
      'succeeded', count(*) filter (where j.status = 'succeeded'), 'failed', count(*) filter (where j.status = 'failed')),
    'hold_usd', trim_scale(b.hold_micros / 1000000.0),
    'charged_usd', trim_scale(coalesce(sum(j.charged_micros), 0) / 1000000.0),
    'metadata', b.metadata,
    'created_at', to_char(b.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
    'finished_at', to_char(b.finished_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
  from batches b join jobs j on j.batch_id = b.id where b.id = p_batch group by b.id
$$;

-- The transaction that settles the last job of a batch ends the batch, and owes its webhook.
create function settle_batch() returns trigger language plpgsql as $$
declare
  v_batch batches;
begin
  update batches set unsettled = unsettled - 1, finished_at = case when unsettled = 1 then now() end
    where id = new.batch_id returning * into v_batch;
  if v_batch.unsettled = 0 then
    perform owe_event(v_batch.account_id, 'batch.finished', v_batch.id, batch_record(v_batch.id), v_batch.callback_url);
  end if;
  return null;
end $$;
create trigger jobs_settle_batch after update of settled_at on jobs
  for each row when (old.settled_at is null and new.settled_at is not null and new.batch_id is not null)
  execute function settle_batch();

-- Returns the quote of each item, and what a hold may take, in their order. p_items: [{capability, inputs, parameters}]
create function quote_items(p_account text, p_items jsonb)
returns table (place bigint, quote job_quote) language plpgsql stable as $$
declare
  v_available bigint;
begin
  select b.available_micros - b.reserved_micros into strict v_available from account_balances b where b.account_id = p_account;
  return query
    select i.place, quote_with(p_account, i.capability, i.inputs, i.parameters, v_available)
    from rows from (jsonb_to_recordset(p_items) as (capability text, inputs jsonb, parameters jsonb))
      with ordinality as i(capability, inputs, parameters, place)
    order by i.place;
end $$;

-- Records that the jobs of a batch that have not ended are cancelled, as cancel_job does for one.
create function cancel_batch(p_batch text, p_account text)
returns table (job_id text, hold_micros bigint, cancelled cancel_outcome) language plpgsql as $$
begin
  -- Like settlements: jobs in the order of their ids, and then the account.
  perform 1 from jobs j where j.batch_id = p_batch and j.account_id = p_account and j.settled_at is null
    order by j.id for no key update;
  return query
    select j.id, j.hold_micros, cancel_job(j.id, p_account) from jobs j
    where j.batch_id = p_batch and j.account_id = p_account and j.settled_at is null order by j.batch_index;
end $$;
