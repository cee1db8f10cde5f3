-- compatible-from: 0016
-- What was paid is recorded by indexes, however small the tables were when the statement was first planned.

-- Debts that were paid, and the uids of the RenderJobs that some of them made. A uid noted before stays. Jobs are locked
-- in the order of ids, as settlements lock them: the two never wait for each other in a circle.
--
-- A plan that was kept since the tables were empty reads them whole, for every batch, until statistics are gathered.
create function record_payments(p_debts bigint[], p_jobs text[], p_uids text[]) returns void
language plpgsql set enable_seqscan = off as $$
declare
  v_made record;
begin
  delete from outbox where id = any(p_debts);
  for v_made in select q.job, q.uid from unnest(p_jobs, p_uids) as q(job, uid) order by q.job loop
    update jobs set renderjob_uid = v_made.uid, renderjob_at = now() where id = v_made.job and renderjob_uid is null;
  end loop;
end $$;
