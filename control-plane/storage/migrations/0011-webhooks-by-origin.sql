-- What is due is looked for origin by origin, so that however much waits for one hides nothing that waits for another.
create index deliveries_pending_by_origin on deliveries (origin, due_at) where state = 'pending';
drop index deliveries_due;
