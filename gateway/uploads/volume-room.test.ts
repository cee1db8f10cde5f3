import { tmpdir } from 'node:os';
import { FORM_TYPE, formBytes, pngBytes } from '@semblance/testkit/gateway/form';
import { startTestGateway } from '@semblance/testkit/gateway/test-gateway';
import { expect, it, onTestFinished } from 'vitest';
import { createVolumeRoom, freeBytesOf } from './volume-room.ts';

const MIB = 1024 * 1024;
const FULL = { code: 'at_capacity', retryAfterSeconds: 60 };

/** A volume on which what is written is gone. */
function volume(freeBytes: number, reserveBytes = 100) {
  const state = { free: freeBytes };
  return { state, room: createVolumeRoom({ reserveBytes, freeBytes: async () => state.free }) };
}

it('uploads that begin together get as much as there is beyond the reserve', async () => {
  const { room } = volume(1_000);
  const results = await Promise.allSettled(Array.from({ length: 32 }, () => room.take(100)));
  const taken = results.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  expect(taken).toHaveLength(9);
  await expect(room.take(1)).rejects.toMatchObject(FULL);
  for (const each of taken) each.giveBack();
  (await room.take(900)).giveBack();
});

it('an upload ends when others have filled the volume meanwhile', async () => {
  const { state, room } = volume(1_000 * MIB);
  const taken = await room.take(100 * MIB);
  async function* source() {
    for (let i = 0; i < 100; i++) {
      yield Buffer.alloc(MIB);
      if (i === 20) state.free = 99;
    }
  }
  let bytes = 0;
  const read = async () => {
    for await (const chunk of taken.watch(source())) bytes += chunk.length;
  };
  await expect(read()).rejects.toMatchObject(FULL);
  expect(bytes).toBeLessThan(30 * MIB);
  taken.giveBack();
});

it('a gateway refuses uploads that would take the reserve, and takes others', async () => {
  const free = await freeBytesOf(tmpdir());
  for (const [outputReserveBytes, status] of [
    [free * 2, 429],
    [1, 200],
  ] as const) {
    const t = await startTestGateway({ outputReserveBytes });
    onTestFinished(() => t.close());
    const answer = await fetch(`${t.base}/uploads`, {
      method: 'POST',
      headers: { ...t.auth, 'content-type': FORM_TYPE },
      body: formBytes([{ name: 'file', filename: 'x.png', content: pngBytes(1_000) }]),
    });
    expect(answer.status).toBe(status);
    if (status === 200) continue;
    expect(await answer.json()).toMatchObject({ error: { code: 'at_capacity' } });
    expect(answer.headers.get('retry-after')).toBe('60');
    expect(t.control.reserved.size).toBe(0);
    expect(await t.files()).toEqual([]);
  }
});
