-- compatible-from: 0012
-- Frames that are shown before a submit, without a charge.

alter table settings
  -- Most of them for an account in a day (UTC).
  add column frame_previews_per_day int not null default 500 check (frame_previews_per_day >= 0);

create table frame_previews (
  account_id text primary key references accounts,
  -- The day (UTC) whose previews are counted.
  day date not null,
  previews int not null
) with (fillfactor = 50);

-- Counts one, if the account has any left today. Exact, however many come at once.
create function take_frame_preview(p_account text) returns boolean language sql as $$
  with limits as (select frame_previews_per_day as most from settings),
  taken as (
    insert into frame_previews as p (account_id, day, previews)
      select p_account, today_utc(), 1 from limits where most > 0
      on conflict (account_id) do update set day = excluded.day,
        previews = case when p.day = excluded.day then p.previews + 1 else 1 end
        where p.day <> excluded.day or p.previews < (select most from limits)
      returning 1)
  select exists (select 1 from taken)
$$;
