/** @module-tag browser */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { jpegOf } from '@semblance/testkit/gateway/stream-rig';
import { pageRig } from '@semblance/testkit/gateway/try-page/page-rig';
import { wavOf } from '@semblance/testkit/sound/wav';
import type { Page } from 'playwright-core';
import { beforeEach, describe, expect, it } from 'vitest';

/** Beginnings of a session, and what comes back. */
const tried = pageRig();
const { rig, status, figure, opened, choosePictures, chooseFile } = tried;
const { startStreaming, expectOver, expectNoSession } = tried;
let page: Page;
beforeEach(() => {
  page = tried.page();
});

/** Presses everything except Stop, as a person or a script would. */
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
    // Another session can be opened after it.
    await startStreaming();
    await page.click('#stop');
    await expectOver(/^The session has ended \(stopped\)/, 'idle');
    // The page shows the last session that was begun, although it failed.
    await page.check('input[value="file"]');
    await page.click('#start');
    await expectOver('Choose a file first.', 'failed');
    expect([await figure('received'), await page.textContent('#charged')]).toEqual([0, '–']);
  });
});

it('the browser lets it connect to its own origin alone, by calls and by sockets', async () => {
  // Another port is another origin, and this one would answer.
  const other = createServer((_request, response) => response.end());
  other.listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  const refused = (action: string) =>
    page.evaluate(`new Promise((resolve) => {
      addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective), { once: true });
      ${action};
      setTimeout(() => resolve('let through'), 3_000);
    })`);
  expect(await refused(`fetch('http://127.0.0.1:${port}').catch(() => {})`)).toBe('connect-src');
  expect(await refused(`new WebSocket('ws://127.0.0.1:${port}/streams/a')`)).toBe('connect-src');
  expect(await refused(`navigator.sendBeacon('http://127.0.0.1:${port}')`)).toBe('connect-src');
  const { host } = new URL(rig.gateway.origin);
  expect(await refused(`new WebSocket('ws://${host}/streams/a')`)).toBe('let through');
  other.close();
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
  /** Answers the oldest waiting picture, and waits until the page has it. */
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
    // Counts the pictures that the gateway dropped, where the agent's numbers jump, and not those that were not
    // shown.
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

/** Returns a WAV file of this length. */
function toneOf(seconds: number): Buffer {
  const samples = Int16Array.from({ length: seconds * 48_000 }, (_, i) =>
    Math.round(8000 * Math.sin(i / 20)),
  );
  return wavOf(samples, 48_000);
}

/** Returns two seconds of pictures without sound. */
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
