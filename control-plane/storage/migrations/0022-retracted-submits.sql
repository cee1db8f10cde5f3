-- compatible-from: 0016
-- A submit whose outcome the control plane did not learn was answered as failed, and nothing is billed for it: it is taken
-- back, whenever its statement is carried out.

create table retracted_submits (
  job_id text primary key,
  at timestamptz not null default now()
);
create index retracted_submits_by_age on retracted_submits (at);

-- Takes back a submit. True: it was carried out, and the job is to be cancelled.
create function retract_submit(p_job text, p_account text) returns boolean language plpgsql as $$
begin
  -- Held by every submit to its end: one that is under way is waited for, one that comes later finds the note.
  perform 1 from account_balances b where b.account_id = p_account for no key update;
  if exists (select 1 from jobs j where j.id = p_job) then return true; end if;
  insert into retracted_submits (job_id) values (p_job) on conflict do nothing;
  return false;
end $$;

create function refuse_retracted() returns trigger language plpgsql as $$
begin
  if exists (select 1 from retracted_submits r where r.job_id = new.id) then
    raise exception 'the submit of % was taken back', new.id using errcode = 'integrity_constraint_violation';
  end if;
  return new;
end $$;
create trigger jobs_not_retracted before insert on jobs for each row execute function refuse_retracted();
