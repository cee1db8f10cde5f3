-- compatible-from: 0012
-- Small pictures of outputs.

-- One row for each output that has one; it goes with the output. A table of its own, since outputs of earlier releases
-- have none.
create table output_previews (
  job_id text primary key references jobs,
  object_key text not null unique,
  size_bytes bigint not null check (size_bytes > 0)
);

alter table media_removals drop constraint media_removals_kind_check;
alter table media_removals add constraint media_removals_kind_check check (kind in ('upload', 'output', 'orphan', 'preview'));
