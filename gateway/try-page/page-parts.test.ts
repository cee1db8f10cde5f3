import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

/** The parts of the page that need no browser. They are written for browsers, and checked by their types. */
const load = (name: string) => import(`./page/${name}.js`);

interface Returned {
  readonly delay: number;
  readonly lost: number;
}
const { Returns } = (await load('returns')) as {
  Returns: new () => {
    sent(number: number, at: number): void;
    back(number: number | undefined, at: number): Returned | undefined;
  };
};
const { newestOf } = (await load('newest')) as {
  newestOf<T>(work: (one: T) => Promise<void>, leftOut: () => void): (one: T) => void;
};
const { atEnd, orEnd, watchLine } = (await load('run')) as {
  atEnd(signal: AbortSignal, giveBack: () => void): void;
  orEnd<T>(promise: Promise<T>, signal: AbortSignal): Promise<T>;
  watchLine(run: AbortController, figures: { sent: number; received: number }): void;
};

describe('pictures that come back', () => {
  const sent = (...numbers: number[]) => {
    const returns = new Returns();
    for (const number of numbers) returns.sent(number, number * 40);
    return returns;
  };

  it('tell how long they took, and how many before them were left out', () => {
    const returns = sent(1, 2, 3, 4);
    expect(returns.back(1, 100)).toEqual({ delay: 60, lost: 0 });
    expect(returns.back(4, 200)).toEqual({ delay: 40, lost: 2 });
    expect(returns.back(4, 300)).toBeUndefined();
  });

  it('are not lost when their number was not read', () => {
    const returns = sent(1, 2, 3, 4, 5);
    returns.back(undefined, 90);
    returns.back(undefined, 130);
    expect(returns.back(4, 200)).toEqual({ delay: 40, lost: 1 });
    expect(returns.back(5, 240)).toEqual({ delay: 40, lost: 0 });
  });
});

describe('one after the other, the newest first', () => {
  it('replaces what waits, keeps the order, and counts what was left out after what came before it', async () => {
    const log: string[] = [];
    const ends: (() => void)[] = [];
    const put = newestOf<number>(
      async (one) => {
        log.push(`began ${one}`);
        await new Promise<void>((resolve) => ends.push(resolve));
        log.push(`drew ${one}`);
      },
      () => log.push('left out'),
    );
    for (const one of [1, 2, 3, 4]) put(one);
    ends.shift()?.();
    await expect.poll(() => log).toContain('began 4');
    ends.shift()?.();
    await expect.poll(() => log).toContain('drew 4');
    put(5);
    expect(log).toEqual(['began 1', 'drew 1', 'left out', 'left out', 'began 4', 'drew 4', 'began 5']);
  });

  it('goes on after one that failed', async () => {
    const done: string[] = [];
    let leftOut = 0;
    const put = newestOf<string>(
      async (one) => {
        if (one === 'bad') throw new Error(one);
        done.push(one);
      },
      () => leftOut++,
    );
    put('bad');
    put('good');
    await expect.poll(() => done).toEqual(['good']);
    expect(leftOut).toBe(1);
  });
});

describe('a run', () => {
  it('gives back what it holds once, also what comes when it is over', async () => {
    const run = new AbortController();
    const given: string[] = [];
    atEnd(run.signal, () => given.push('early'));
    const waiting = orEnd(new Promise(() => {}), run.signal);
    run.abort(new Error('unplugged'));
    run.abort(new Error('again'));
    atEnd(run.signal, () => given.push('late'));
    await expect(waiting).rejects.toThrow('unplugged');
    expect(given).toEqual(['early', 'late']);
  });

  describe('and its line', () => {
    beforeEach(() => void vi.useFakeTimers());
    afterEach(() => void vi.useRealTimers());

    it('is over when nothing comes back for 20 s', () => {
      const run = new AbortController();
      const figures = { sent: 1, received: 1 };
      watchLine(run, figures);
      for (let second = 0; second < 15; second++) {
        figures.sent++;
        vi.advanceTimersByTime(1000);
      }
      figures.received++;
      vi.advanceTimersByTime(1000);
      for (let second = 0; second < 20; second++) {
        expect(run.signal.aborted).toBe(false);
        figures.sent++;
        vi.advanceTimersByTime(1000);
      }
      expect(String(run.signal.reason)).toMatch(/nothing has come back for 20 s/);
      expect(vi.getTimerCount()).toBe(0);
    });

    it('goes on while nothing is sent', () => {
      const run = new AbortController();
      watchLine(run, { sent: 5, received: 5 });
      vi.advanceTimersByTime(600_000);
      expect(run.signal.aborted).toBe(false);
      run.abort();
      expect(vi.getTimerCount()).toBe(0);
    });
  });
});

describe('the player of sound', () => {
  interface Player {
    readonly port: { onmessage(message: { data: ArrayBuffer }): void };
    process(inputs: [], outputs: Float32Array[][]): boolean;
    readonly gaps: number;
  }
  let play: Player;
  beforeEach(async () => {
    let Play: (new () => Player) | undefined;
    vi.stubGlobal('sampleRate', 48_000);
    vi.stubGlobal(
      'AudioWorkletProcessor',
      class {
        port = { postMessage() {} };
      },
    );
    vi.stubGlobal('registerProcessor', (_name: string, processor: new () => Player) => {
      Play = processor;
    });
    vi.resetModules();
    await load('play-worklet');
    if (!Play) throw new Error('nothing was registered');
    play = new Play();
  });
  afterEach(() => void vi.unstubAllGlobals());

  const hear = (chunks: number) => {
    for (let i = 0; i < chunks; i++) play.port.onmessage({ data: new Int16Array(960).fill(1000).buffer });
  };
  const sound = (frames: number) => {
    const out = new Float32Array(frames);
    play.process([], [[out]]);
    return out;
  };

  it('counts sound that it cuts as a gap', () => {
    hear(15);
    expect(sound(128)[0]).toBeGreaterThan(0);
    expect(play.gaps).toBe(0);
    hear(1);
    expect(play.gaps).toBe(1);
    // Three chunks were kept.
    sound(3 * 960);
    expect(play.gaps).toBe(1);
    sound(1);
    expect(play.gaps).toBe(2);
  });
});
