-- Of tests: a schema and three releases that change it after one another.

create table songs (id int generated always as identity primary key, title text not null);
