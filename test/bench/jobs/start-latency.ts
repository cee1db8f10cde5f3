import { setTimeout as delay } from 'node:timers/promises';
import { faceless } from '@semblance/testkit/stack/media';
import type { Stack } from '@semblance/testkit/stack/stack';
import { type BenchContext, limitRow, quantile, type Section, unmeasuredRow } from '../lib/section.ts';

const WARM_UP = 10;
const SAMPLES = 120;

/**
 * Measures the time from the answer to a submit until the agent begins the work, on a warm stack with a free slot:
 * what an idle system adds to a render. Jobs run one after the other, with a small picture without a face. So each
 * ends at once, and its slot is free before the next submit.
 */
export async function runStartLatencyBench({ stack, say }: BenchContext): Promise<Section> {
  const { api } = await stack.newAccount({ balanceUsd: 1_000 });
  const [image_key, face_key] = await Promise.all([
    api.upload(await faceless('jpeg', 64, 64)),
    api.upload(await faceless('jpeg', 64, 64)),
  ]);
  const answered = new Map<string, number>();
  const submitMs: number[] = [];
  say(`submit → agent begins: ${SAMPLES} jobs one after the other`);
  for (let i = 0; i < WARM_UP + SAMPLES; i++) {
    const sentAt = performance.now();
    const { id } = await api.swap({ image_key, face_key });
    if (i >= WARM_UP) {
      answered.set(id, Date.now());
      submitMs.push(performance.now() - sentAt);
    }
    await api.finished(id);
    // The end of a job (acknowledgement, status, settlement) must not delay the start of the next one.
    await delay(60);
  }

  const begun = await startTimes(stack);
  const waits: number[] = [];
  for (const [id, at] of answered) {
    const started = begun.get(id);
    if (started === undefined) throw new Error(`RenderJob ${id} says no startTime`);
    waits.push(started - at);
  }
  const title = 'Submit → agent begins';
  if ([...begun.values()].every((time) => time % 1000 === 0)) {
    const why = 'status.startTime has whole seconds only';
    return { title, rows: [unmeasuredRow('p50', '≤ 100 ms', why), unmeasuredRow('p99', '≤ 500 ms', why)] };
  }
  return {
    title,
    rows: [
      limitRow({ name: 'p50', ours: quantile(waits, 0.5), limit: 100, unit: 'ms' }),
      limitRow({ name: 'p99', ours: quantile(waits, 0.99), limit: 500, unit: 'ms' }),
      {
        name: 'of that request: submit answered, p50',
        ours: `${quantile(submitMs, 0.5).toFixed(1)} ms`,
        peer: '',
        ratio: '',
        goal: '',
        met: '',
      },
    ],
    notes: [
      `${waits.length} jobs one after the other after ${WARM_UP} to warm up, one slot free each time.`,
      'From the answer to the submit in the client to the moment the agent begins (status.startTime), by one clock.',
      'Negative: the agent had begun before the client held the answer.',
    ],
  };
}

/** Returns the time at which each RenderJob's attempt began on its agent, in Unix ms. */
async function startTimes(stack: Stack): Promise<Map<string, number>> {
  const list = JSON.parse(await stack.kubectl(['get', 'renderjobs', '-o', 'json'])) as {
    items: { metadata: { name: string }; status?: { startTime?: string } }[];
  };
  return new Map(
    list.items.flatMap(({ metadata, status }) =>
      status?.startTime ? [[metadata.name, Date.parse(status.startTime)] as const] : [],
    ),
  );
}
