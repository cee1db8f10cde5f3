-- compatible-from: 0002
-- Takes away what the release before this one no longer uses, and the one before that still does.

drop trigger songs_name on songs;
drop function songs_name;
alter table songs drop column title;
