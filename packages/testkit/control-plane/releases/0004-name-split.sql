-- No release before this one may run on it.

alter table songs add column composer text not null default '';
update songs set composer = split_part(name, ' by ', 2), name = split_part(name, ' by ', 1);
