import { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '@semblance/common/logging';
import type { ObjectStore, StoredObject } from '@semblance/objects/store';
import { CROPS_PREFIX } from '../faces/face-rows.ts';
import type { Sql } from '../storage/sql.ts';
import { PARTS_PREFIX } from '../uploads/resumable-uploads.ts';
import { PREVIEWS_PREFIX } from '../voices/previews.ts';
import type { Removals } from './removals.ts';

/**
 * Prefixes under which this service stores: uploads and their parts, outputs by the uid of their RenderJob, previews of
 * voices, crops of faces.
 * Nothing else is examined.
 */
const UPLOADS = 'api/up-';
const OUTPUTS = 'out/';
/** An object under this prefix names the database that the store belongs to. */
const INSTALLATIONS = 'installation/';
/** Objects judged by one statement. */
const BATCH = 5_000;
/** Number of objects after which the listing rests, so that it does not compete with uploads and renders. */
const REST_EVERY = 500;
const REST_MS = 100;

export interface OrphansOptions {
  /** Connections whose statements may take long. */
  readonly sql: Sql;
  readonly objects: Pick<ObjectStore, 'list' | 'put'>;
  readonly removals: Removals;
  readonly logger: Logger;
  /** uids of the existing RenderJobs; undefined while they are unknown. */
  readonly renderJobs: () => ReadonlySet<string> | undefined;
}

/**
 * Finds objects without a reference: outputs of attempts that lost, or of deleted RenderJobs without a job; files
 * whose upload was swept while they were being written; previews of removed voices. Objects younger than the
 * setting may still get a reference.
 */
export function createOrphans({ sql, objects, removals, logger, renderJobs }: OrphansOptions) {
  /** @returns why nothing must be deleted, if so */
  async function notOurs(): Promise<string | undefined> {
    const [own] = await sql<{ id: string }[]>`select id::text from installation`;
    if (!own) return 'this installation has no name';
    let known = false;
    for await (const { key } of objects.list(INSTALLATIONS)) {
      if (key !== INSTALLATIONS + own.id) return `the store belongs to another installation too (${key})`;
      known = true;
    }
    if (!known)
      await objects.put(INSTALLATIONS + own.id, Readable.from([Buffer.from(own.id)]), {
        contentType: 'text/plain',
      });
    return undefined;
  }

  /** Returns the objects without a row whose outcome no RenderJob can bring, and owes their deletion. */
  async function take(found: readonly StoredObject[], uids: ReadonlySet<string>): Promise<string[]> {
    const candidates = found.filter(
      ({ key }) => !(key.startsWith(OUTPUTS) && uids.has(key.split('/')[1] ?? '')),
    );
    if (candidates.length === 0) return [];
    const rows = await sql<{ object_key: string }[]>`
      insert into media_removals (object_key, kind, size_bytes, removed_by)
      select q.key, 'orphan', q.size_bytes, 'retention'
      from unnest(${candidates.map(({ key }) => key)}::text[],
                  ${candidates.map(({ sizeBytes }) => sizeBytes)}::bigint[]) as q(key, size_bytes)
      where not exists (select 1 from uploads u where u.file_key = q.key)
        and not exists (select 1 from upload_parts p where p.object_key = q.key)
        and not exists (select 1 from jobs j where j.output_key = q.key)
        and not exists (select 1 from output_previews o where o.object_key = q.key)
        and not exists (select 1 from faces f where f.crop_key = q.key)
        and not exists (select 1 from voice_previews v where v.object_key = q.key)
        and not exists (select 1 from jobs j where j.settled_at is null and j.renderjob_uid = split_part(q.key, '/', 2))
      on conflict (object_key) do nothing
      returning object_key`;
    return rows.map((row) => row.object_key);
  }

  return {
    async sweep(signal: AbortSignal): Promise<{ listed: number; orphans: number; skipped?: string }> {
      const [setting] = await sql<{ seconds: number | null }[]>`
        select orphan_retention_seconds as seconds from settings`;
      if (!setting || setting.seconds === null) return { listed: 0, orphans: 0, skipped: 'switched off' };
      const uids = renderJobs();
      if (!uids) throw new Error('it is not known which RenderJobs there are');
      const foreign = await notOurs();
      if (foreign) {
        logger.error(`cannot list objects without a row: ${foreign}`);
        return { listed: 0, orphans: 0, skipped: foreign };
      }
      const youngest = Date.now() - setting.seconds * 1_000;
      let listed = 0;
      let orphans = 0;
      let batch: StoredObject[] = [];
      const judge = async () => {
        const orphaned = await take(batch, renderJobs() ?? uids);
        batch = [];
        orphans += orphaned.length;
        await removals.payNow(orphaned);
      };
      for (const prefix of [UPLOADS, PARTS_PREFIX, OUTPUTS, PREVIEWS_PREFIX, CROPS_PREFIX]) {
        for await (const object of objects.list(prefix)) {
          signal.throwIfAborted();
          listed++;
          if (object.storedAt.getTime() < youngest) batch.push(object);
          if (batch.length >= BATCH) await judge();
          if (listed % REST_EVERY === 0) await delay(REST_MS, undefined, { signal });
        }
      }
      await judge();
      if (orphans > 0) logger.info({ listed, orphans }, 'deleting objects without a row');
      return { listed, orphans };
    },
  };
}
