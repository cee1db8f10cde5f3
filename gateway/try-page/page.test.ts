/** @module-tag browser */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { launchBrowser } from '../../test/support/browser.ts';
import { findBrowser } from '../../test/support/programs.ts';
import { PICTURE_READY, VOICE_READY } from '../testing/agent-double.ts';
import { TEST_KEY } from '../testing/control-double.ts';
import { jpegOf, streamRig } from '../testing/stream-rig.ts';

/** The page in a real browser before a real gateway, whose control plane and agent do what a test says. */
const rig = streamRig({ tryPage: true });
const program = findBrowser();
let browser: Browser;
let page: Page;
let faults: string[];

beforeAll(async () => {
  if (!program) throw new Error('no Chromium on PATH: install one, or name it by SEMBLANCE_TEST_BROWSER');
  browser = await launchBrowser(program, {});
});
afterAll(() => browser?.close());

beforeEach(async () => {
  rig.agent.mode = 'echo';
  rig.agent.ready = VOICE_READY;
  rig.live.sessions.clear();
  rig.live.voices = [];
  rig.live.grant = { ...rig.live.grant, maxDurationSeconds: 600 };
  rig.gateway.control.pauses.clear();
  page = await browser.newPage();
  faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.addInitScript(`window.testOrigin = '${rig.gateway.origin}'`);
  await page.addInitScript({ path: join(import.meta.dirname, 'testing/watch-page.js') });
  // Settled as soon as it is asked for.
  await page.route('**/usage?*', (route) =>
    route.fulfill({
      json: [...rig.live.sessions.keys()].map((id) => ({
        id,
        status: 'succeeded',
        charged_usd: 0.5,
        reason: null,
      })),
    }),
  );
  await page.goto(`${rig.gateway.base}/try#key=${TEST_KEY}`);
});
afterEach(async () => {
  await page.close();
  expect(faults).toEqual([]);
});

const status = () => page.textContent('#status');
const figure = async (id: string) => Number(await page.textContent(`#${id}`));
const isOpen = () => page.evaluate('held.open()');
const opened = () => rig.live.sessions.size;
const untilIdle = () => expect.poll(() => page.isEnabled('#start')).toBe(true);

async function choosePictures() {
  rig.agent.ready = PICTURE_READY;
  await page.check('input[value="full-live-swap"]');
}
async function chooseFile(name: string, mimeType: string, buffer: Buffer) {
  await page.check('input[value="file"]');
  await page.setInputFiles('#file', { name, mimeType, buffer });
}
/** Starts, and waits until something has come back. */
async function startStreaming() {
  await page.click('#start');
  await expect.poll(status).toMatch(/^Streaming/);
  await expect.poll(() => figure('received')).toBeGreaterThan(0);
}
/** The page can be used again, holds nothing of the browser any more, and said why. */
async function expectOver(sentence: string | RegExp, state: 'idle' | 'failed') {
  await untilIdle();
  await expect.poll(isOpen).toEqual([]);
  expect(await status()).toMatch(sentence);
  expect(await page.getAttribute('#status', 'data-state')).toBe(state);
  expect(await page.isEnabled('#stop')).toBe(false);
}
async function expectNoSession(sentence: string | RegExp) {
  await untilIdle();
  expect(opened()).toBe(0);
  await expectOver(sentence, 'failed');
}
/** Everything but Stop, as a person or a script would. */
const pressEverything = () =>
  page.evaluate(`for (const control of document.querySelectorAll('button, input')) {
    if (control.id !== 'stop' && control.type !== 'file') control.click();
  }
  document.getElementById('form').requestSubmit();
  document.getElementById('form').requestSubmit();`);

describe('one session at a time', () => {
  it('opens no second one, whatever is pressed while it opens or streams', async () => {
    let answer = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    rig.gateway.control.pauses.set('openSession', asked);
    const calls = rig.gateway.control.count('openSession');
    await page.evaluate(`form.requestSubmit(); form.requestSubmit();`);
    await expect.poll(() => rig.gateway.control.count('openSession')).toBe(calls + 1);
    await pressEverything();
    expect(await page.isEnabled('#start')).toBe(false);
    answer();
    await expect.poll(status).toMatch(/^Streaming/);
    await pressEverything();
    const before = await figure('received');
    await expect.poll(() => figure('received')).toBeGreaterThan(before + 20);
    expect(await page.isEnabled('#start')).toBe(false);
    expect(await page.isEnabled('#load-voices')).toBe(false);
    expect(await status()).toMatch(/^Streaming/);
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    expect(rig.gateway.control.count('openSession')).toBe(calls + 1);
    expect(await page.textContent('#charged')).toBe('0.5 USD');
    // Another one can be had after it.
    await startStreaming();
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    // What is shown is of the last one that was begun, though nothing came of it.
    await page.check('input[value="file"]');
    await page.click('#start');
    await expectOver('Choose a file first.', 'failed');
    expect([await figure('received'), await page.textContent('#charged')]).toEqual([0, '–']);
  });
});

describe('what is sent is asked for first', () => {
  it.each([
    ['voice', 'NotAllowedError', 'This page was not allowed to use the microphone.'],
    ['voice', 'NotFoundError', 'There is no microphone on this machine.'],
    ['full-live-swap', 'NotReadableError', 'The camera cannot be used: another program may have it.'],
  ])('%s: %s is told, and no session was opened', async (what, refusal, sentence) => {
    if (what !== 'voice') await choosePictures();
    await page.evaluate(`held.device = '${refusal}'`);
    await page.click('#start');
    await expectNoSession(sentence);
  });

  it('says on a page that is not secure what is missing, and opens no session', async () => {
    await page.route('http://insecure.test/**', async (route) => {
      const url = route.request().url().replace('http://insecure.test', rig.gateway.origin);
      await route.fulfill({ response: await route.fetch({ url }) });
    });
    await page.goto(`http://insecure.test/api/v1/try#key=${TEST_KEY}`);
    await page.click('#start');
    await expect.poll(status).toMatch(/^Browsers give pages a microphone only over HTTPS/);
    await choosePictures();
    await page.click('#start');
    await expect.poll(status).toMatch(/^Browsers give pages a camera only over HTTPS/);
    expect(opened()).toBe(0);
  });

  it.each(['voice', 'full-live-swap'])('%s: a file that is none opens no session', async (what) => {
    if (what !== 'voice') await choosePictures();
    await chooseFile('speech.wav', 'audio/wav', Buffer.from('these are words'));
    await page.click('#start');
    await expectNoSession(/^This browser finds no (sound|pictures) in the file/);
  });

  it('sound alone opens no session of pictures, and is not offered for one', async () => {
    const offered = [await page.getAttribute('#file', 'accept')];
    await choosePictures();
    offered.push(await page.getAttribute('#file', 'accept'));
    await chooseFile('tone.wav', 'audio/wav', toneOf(1));
    await page.click('#start');
    await expectNoSession('This browser finds no pictures in the file that it can read.');
    expect(offered).toEqual(['audio/*,video/*', 'video/*']);
  });

  it('a file of sound is streamed', async () => {
    await chooseFile('tone.wav', 'audio/wav', toneOf(1));
    await startStreaming();
    await page.click('#stop');
    await expectOver(/stopped/, 'idle');
  });

  it('a file of pictures is streamed', { tags: ['ffmpeg'] }, async () => {
    await choosePictures();
    await chooseFile('film.webm', 'video/webm', await film());
    await startStreaming();
    await page.click('#stop');
    await expectOver(/stopped/, 'idle');
  });
});

describe('everything is given back', () => {
  it.each(['voice', 'full-live-swap'])('%s: on Stop', async (what) => {
    if (what !== 'voice') await choosePictures();
    await startStreaming();
    expect(await isOpen()).toContain(what === 'voice' ? 'audio' : 'video');
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
  });

  it('when the means to play are missing', async () => {
    await page.evaluate(
      `AudioWorklet.prototype.addModule = () => Promise.reject(new Error('no such script'));`,
    );
    await page.click('#start');
    await expectOver('The session has ended (no such script).', 'failed');
    expect(opened()).toBe(1);
  });

  it('when Stop comes before the device was given', async () => {
    await page.evaluate('void (held.device = new Promise((resolve) => { held.give = resolve; }))');
    await page.click('#start');
    await expect.poll(status).toMatch(/^Asking for the microphone/);
    await page.click('#stop');
    await expectOver('Stopped before a session was opened.', 'idle');
    await page.evaluate('held.give()');
    await expect
      .poll(() => page.evaluate('held.tracks.map(({ readyState }) => readyState)'))
      .toEqual(['ended']);
    expect(opened()).toBe(0);
  });

  it('when Stop comes while the session opens, which is closed too', async () => {
    let answer = () => {};
    const asked = new Promise<void>((resolve) => {
      answer = resolve;
    });
    rig.gateway.control.pauses.set('openSession', asked);
    await page.click('#start');
    await expect.poll(status).toMatch(/^Opening a session/);
    await page.click('#stop');
    expect(await isOpen()).toEqual([]);
    expect(await page.isEnabled('#start')).toBe(false);
    answer();
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    const [id] = [...rig.live.sessions.keys()];
    expect((await rig.final(String(id))).streamedMs).toBe(0);
  });

  it.each([
    ['voice', 'microphone'],
    ['full-live-swap', 'camera'],
  ])('%s: when the %s is unplugged', async (what, device) => {
    if (what !== 'voice') await choosePictures();
    await startStreaming();
    await page.evaluate(`held.tracks[0].dispatchEvent(new Event('ended'))`);
    await expectOver(
      `The session has ended (the ${device} is gone: it was unplugged or taken away).`,
      'failed',
    );
  });

  it('when the service ends the session, with its reason', async () => {
    await startStreaming();
    rig.agent.relays.at(-1)?.break();
    await expectOver(/^The session has ended \(1011, render_failed/, 'failed');
  });

  it('when it has streamed for as long as was granted, which is no failure', async () => {
    rig.live.grant = { ...rig.live.grant, maxDurationSeconds: 1 };
    await startStreaming();
    await expectOver(/^The session has ended \(4001, session_limit_reached/, 'idle');
  });

  it('when the line is cut, and when the socket cannot be opened', async () => {
    const line = await cuttableLine(rig.gateway.port);
    await page.evaluate(`window.testOrigin = 'http://127.0.0.1:${line.port}'`);
    await startStreaming();
    line.cut();
    await expectOver('The session has ended (the line was lost).', 'failed');
    await page.click('#start');
    await expect.poll(status).toBe('The session has ended (its socket could not be opened).');
    await expectOver(/could not be opened/, 'failed');
  });

  it('when the service answers something else than it should, in words', async () => {
    await page.route('**/voice/session', (route) =>
      route.fulfill({ status: 502, body: '<html>Bad gateway</html>' }),
    );
    await page.click('#start');
    await expectOver('What answered (502) is not the service.', 'failed');
    await page.unroute('**/voice/session');
    await page.route('**/voice/session', (route) => route.abort());
    await page.click('#start');
    await expectOver(/^The service cannot be reached/, 'failed');
  });

  it('and why it ended stays to be read when the charge cannot be', async () => {
    await startStreaming();
    await page.unroute('**/usage?*');
    await page.route('**/usage?*', (route) => route.abort());
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    expect(await page.textContent('#charged')).toMatch(/^The service cannot be reached/);
  });
});

describe('pictures that come back', () => {
  beforeEach(async () => {
    await choosePictures();
    rig.agent.mode = 'hold';
    await page.click('#start');
    await expect.poll(status).toMatch(/^Streaming/);
  });
  const relay = () => {
    const found = rig.agent.relays.at(-1);
    if (!found) throw new Error('nobody is connected');
    return found;
  };
  /** Answers the oldest picture that waits, and waits until the page has it. */
  async function answer(data?: Buffer) {
    const before = await figure('received');
    await expect.poll(() => relay().waiting.length).toBeGreaterThan(0);
    const oldest = relay().waiting.shift() as { sequence: bigint; data: Buffer };
    relay().media(oldest.sequence, data ?? oldest.data);
    await expect.poll(() => figure('received')).toBe(before + 1);
    return oldest.sequence;
  }

  it('faster than they are drawn: in order, the newest after the one under way, the others counted as not shown', async () => {
    await page.evaluate('held.holdDecodes = true');
    const sequences: bigint[] = [];
    for (let i = 0; i < 4; i++) sequences.push(await answer());
    expect(await page.evaluate('held.decodes.length')).toBe(1);
    await page.evaluate('held.holdDecodes = false; held.decodes[0]()');
    await expect.poll(() => figure('unshown')).toBe(2);
    await expect.poll(() => page.textContent('#delay-p50')).toMatch(/ms/);
    sequences.push(await answer());
    // Those that the gateway left out, where the agent's numbers jump, and none of those that were not shown.
    const last = Number(sequences.at(-1));
    expect(await figure('lost')).toBe(last - sequences.length);
  });

  it('damaged: counted as not shown, and the next is drawn', async () => {
    await answer(jpegOf());
    await expect.poll(() => figure('unshown')).toBe(1);
    expect(await page.textContent('#delay-p50')).toBe('–');
    await answer();
    await expect.poll(() => page.textContent('#delay-p50')).toMatch(/ms/);
    expect(await figure('unshown')).toBe(1);
  });
});

/** A way to the gateway that is cut once and for all. */
async function cuttableLine(port: number) {
  const ends = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(port, '127.0.0.1');
    for (const end of [from, to]) end.on('error', () => {}).on('close', () => from.destroy());
    from.on('close', () => to.destroy());
    ends.add(from);
    from.pipe(to).pipe(from);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    cut() {
      server.close();
      for (const end of ends) end.resetAndDestroy();
    },
  };
}

/** A WAV of so many seconds. */
function toneOf(seconds: number): Buffer {
  const samples = Buffer.alloc(seconds * 48_000 * 2);
  for (let i = 0; i < samples.length / 2; i++)
    samples.writeInt16LE(Math.round(8000 * Math.sin(i / 20)), i * 2);
  const head = Buffer.alloc(44);
  head.write('RIFF', 0);
  head.writeUInt32LE(36 + samples.length, 4);
  head.write('WAVEfmt ', 8);
  head.writeUInt32LE(16, 16);
  head.writeUInt16LE(1, 20);
  head.writeUInt16LE(1, 22);
  head.writeUInt32LE(48_000, 24);
  head.writeUInt32LE(96_000, 28);
  head.writeUInt16LE(2, 32);
  head.writeUInt16LE(16, 34);
  head.write('data', 36);
  head.writeUInt32LE(samples.length, 40);
  return Buffer.concat([head, samples]);
}

/** Two seconds of pictures without sound. */
async function film(): Promise<Buffer> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-film-'));
  try {
    const path = join(folder, 'film.webm');
    const source = ['-f', 'lavfi', '-i', 'testsrc=size=320x240:rate=10:duration=2'];
    await promisify(execFile)('ffmpeg', ['-v', 'error', '-nostdin', ...source, '-c:v', 'libvpx', path]);
    return await readFile(path);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
