-- compatible-from: 0016
-- A callback at a host whose name is longer than an index takes keeps no job from ending. None is accepted any more; those
-- that were are delivered like others that cannot be reached.

create or replace function owe_delivery() returns trigger language plpgsql as $$
begin
  insert into deliveries (id, job_id, account_id, event, url, origin)
  values (replace(new.id, 'job-', 'dlv-'), new.id, new.account_id, 'job.' || new.status, new.callback_url,
          left(lower(substring(new.callback_url from '^[^/]*//[^/?#]*')), 512));
  return null;
end $$;
