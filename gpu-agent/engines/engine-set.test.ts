import type { EngineCapability } from '@semblance/engine-api/engine';
import { describe, expect, it } from 'vitest';
import { createEngineSet } from './engine-set.ts';
import type { EnginePool } from './host/engine-pool.ts';

const offer = (capability: EngineCapability['capability'], slots = 1) => ({
  capability,
  slots,
  memoryMib: 1,
});

/** Returns a pool as the set sees it: `warm` renders fit now, and `places` when all its processes are up. */
function poolOf(
  places: number,
  offers: EngineCapability[],
  { warm = places, offered = true } = {},
): EnginePool {
  const known = { name: 'e', version: '1', capabilities: offers };
  return {
    known,
    engine: offered ? known : undefined,
    places,
    capacity: warm,
    trouble: warm > 0 ? undefined : 'away',
  } as Partial<EnginePool> as EnginePool;
}

describe('the engines of an agent', () => {
  it('does a capability with the first that offers it', () => {
    const first = poolOf(4, [offer('lip-sync')]);
    const second = poolOf(4, [offer('lip-sync'), offer('avatar')]);
    const set = createEngineSet({ pools: [first, second], slots: 4 });
    expect(set.find('lip-sync')?.pool).toBe(first);
    expect(set.find('avatar')?.pool).toBe(second);
    expect(set.find('face-swap')).toBeUndefined();
  });

  it('leaves nothing of an engine whose device is gone to another engine here, and says why', () => {
    const gpu = { ...poolOf(4, [offer('face-swap')], { warm: 0, offered: false }), deviceTrouble: 'no GPU' };
    const cpu = poolOf(4, [offer('face-swap'), offer('avatar')]);
    const set = createEngineSet({ pools: [gpu, cpu], slots: 4 });
    expect(set.find('face-swap')).toBeUndefined();
    expect(set.misses('face-swap')).toBe(true);
    expect(set.find('avatar')?.pool).toBe(cpu);
    expect(set.offers(cpu).map(({ capability }) => capability)).toEqual(['avatar']);
    expect(set.unavailable).toEqual([{ capability: 'face-swap', message: 'no GPU' }]);
    expect(set.deviceTrouble).toBe('no GPU');
  });

  it('does not offer what cannot be used here, and does not wait for it', () => {
    const pool = poolOf(4, [offer('lip-sync'), offer('face-swap-image')]);
    const away = poolOf(4, [offer('avatar')], { warm: 0, offered: false });
    const obstacle = (capability: string) => (capability === 'face-swap-image' ? undefined : 'no ffmpeg');
    const set = createEngineSet({ pools: [pool, away], slots: 4, obstacle });
    expect(set.offers(pool).map(({ capability }) => capability)).toEqual(['face-swap-image']);
    expect([set.find('lip-sync'), set.misses('avatar')]).toEqual([undefined, false]);
    expect(set.find('face-swap-image')?.pool).toBe(pool);
    // The capabilities of an engine that was never warm are unknown.
    expect(set.unavailable).toEqual([{ capability: 'lip-sync', message: 'no ffmpeg' }]);
  });

  it('says what its engines would do and none of them can, in the words of the engine', () => {
    const lacking = poolOf(1, [offer('lip-sync'), offer('face-swap-image')]);
    Object.assign(lacking.engine as object, {
      unavailable: [
        { capability: 'avatar', message: 'no voice' },
        { capability: 'face-swap', message: 'no ffmpeg' },
        { capability: 'lip-sync', message: 'no model' },
      ],
    });
    const other = poolOf(1, [offer('face-swap')]);
    const obstacle = (capability: string) => (capability === 'lip-sync' ? 'nothing measures it' : undefined);
    const set = createEngineSet({ pools: [lacking, other], slots: 1, obstacle });
    expect(set.unavailable).toEqual([
      { capability: 'lip-sync', message: 'no model' },
      { capability: 'avatar', message: 'no voice' },
    ]);
    expect(createEngineSet({ pools: [other], slots: 1 }).unavailable).toEqual([]);
  });

  it('knows an engine that is away from one that never was', () => {
    const away = poolOf(2, [offer('lip-sync')], { warm: 0, offered: false });
    const set = createEngineSet({ pools: [away], slots: 2 });
    expect(set.find('lip-sync')).toBeUndefined();
    expect([set.misses('lip-sync'), set.misses('avatar')]).toEqual([true, false]);
    expect([set.capacity, set.trouble]).toEqual([0, 'away']);
  });

  it.each([
    ['one place for each slot', 4, 4, 1, 1],
    ['one place on eight slots', 8, 1, 1, 5],
    ['two places on eight slots', 8, 2, 1, 3],
    ['three places on eight slots', 8, 3, 1, 3],
    ['more places than slots', 4, 16, 1, 1],
    ['what the engine itself asks for', 8, 8, 3, 3],
  ])('takes so many slots that no more renders fit than are held: %s', (_what, slots, places, own, cost) => {
    const sidecar = poolOf(places, [offer('lip-sync', own)]);
    const set = createEngineSet({ pools: [sidecar, poolOf(slots, [offer('avatar')])], slots });
    expect(set.find('lip-sync')?.slots).toBe(cost);
    expect(Math.floor(slots / cost)).toBeLessThanOrEqual(places);
    expect(set.find('avatar')?.slots).toBe(1);
  });

  it('takes no more slots than are warm, while other engines are down', () => {
    const sidecar = poolOf(1, [offer('lip-sync')]);
    const down = poolOf(8, [offer('avatar')], { warm: 0 });
    const set = createEngineSet({ pools: [sidecar, down], slots: 8 });
    expect([set.capacity, set.find('lip-sync')?.slots]).toEqual([1, 1]);
  });

  it('counts the slots of warm processes, and costs that do not change while one restarts', () => {
    const restarting = poolOf(4, [offer('avatar')], { warm: 3 });
    const set = createEngineSet({ pools: [restarting], slots: 4 });
    expect(set.capacity).toBe(3);
    expect(set.find('avatar')?.slots).toBe(1);
  });
});
