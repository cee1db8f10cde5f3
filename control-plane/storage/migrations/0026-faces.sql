-- compatible-from: 0012
-- People that uploads show.

-- Uploads in which people were searched, with the number of frames that were looked at. The answer stays as it was first
-- given, because jobs name people by it.
create table face_searches (
  file_key text primary key references uploads on delete cascade,
  kind text not null check (kind in ('image', 'video')),
  frames int not null check (frames >= 0),
  found_at timestamptz not null default now()
);

-- People of such an upload. A row goes with its upload, and so does what the person is recognised by.
create table faces (
  face_id text primary key,
  file_key text not null references face_searches on delete cascade,
  -- Place in the answer, from 0: the most prominent first.
  place int not null check (place >= 0),
  -- Box in the frame that shows the face best, {x, y, width, height}, as shares of the frame.
  box jsonb not null,
  at_us bigint not null check (at_us >= 0),
  frames int not null check (frames >= 0),
  -- Codes of why the face cannot be put on others, and why no face can be put on it.
  not_source text[] not null,
  not_target text[] not null,
  -- Descriptor in Base64.
  look text not null,
  crop_key text not null unique,
  crop_bytes bigint not null check (crop_bytes > 0),
  unique (file_key, place)
);

alter table media_removals drop constraint media_removals_kind_check;
alter table media_removals add constraint media_removals_kind_check
  check (kind in ('upload', 'output', 'orphan', 'preview', 'crop'));
