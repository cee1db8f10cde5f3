-- compatible-from: 0001
-- Adds: who knows `title` alone goes on, and who knows `name` need not know `title`.

alter table songs add column name text;

create function songs_name() returns trigger language plpgsql as $$
begin
  new.name := coalesce(new.name, new.title);
  new.title := coalesce(new.title, new.name);
  return new;
end
$$;
create trigger songs_name before insert or update on songs for each row execute function songs_name();
update songs set name = title;
