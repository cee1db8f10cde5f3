/** @module-tag browser
 * @module-tag ffmpeg
 * @module-tag speech */
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { launchBrowser } from '@semblance/testkit/stack/browser';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { findBrowser } from '@semblance/testkit/stack/programs';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import type { Browser, Page } from 'playwright-core';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * The try page of the gateway in a real browser, with the whole running system. Files serve as microphone and
 * camera.
 */
const run = promisify(execFile);
const program = findBrowser();
let folder: string;
let browser: Browser;
let account: Account;
let page: Page;
let faults: string[];

describe('the page to try live sessions with', () => {
  beforeAll(async () => {
    if (!program) throw new Error('no Chromium on PATH: install one, or name it by SEMBLANCE_TEST_BROWSER');
    folder = await mkdtemp(join(tmpdir(), 'semblance-page-'));
    const at = (name: string) => join(folder, name);
    await run('flite', [
      '-voice',
      'slt',
      '-t',
      'Bring me the big blue map, and then go home.',
      '-o',
      at('s.wav'),
    ]);
    await run('ffmpeg', ['-v', 'error', '-i', at('s.wav'), '-ar', '48000', at('speech.wav')]);
    await writeFile(at('face.jpg'), ADMIRAL.bytes);
    // The film stands still: the canvases before and after may show different frames of it.
    const crop = 'scale=560:-2,crop=480:360:40:100,scale=640:480,fps=15';
    const camera = [
      '-loop',
      '1',
      '-i',
      at('face.jpg'),
      '-vf',
      crop,
      '-t',
      '4',
      '-q:v',
      '3',
      at('camera.mjpeg'),
    ];
    await run('ffmpeg', ['-v', 'error', '-nostdin', ...camera]);
    const devices = { microphone: at('speech.wav'), camera: at('camera.mjpeg') };
    browser = await launchBrowser(program, devices);
    account = await (await sharedStack()).newAccount();
  });
  afterAll(async () => {
    await browser?.close();
    await rm(folder, { recursive: true, force: true });
  });

  /** Opens a new page and enters the key. */
  async function open() {
    await page?.close();
    page = await browser.newPage();
    faults = [];
    page.on('pageerror', (error) => faults.push(String(error)));
    page.on('console', (line) => {
      if (line.type() === 'error') faults.push(line.text());
    });
    await page.goto(`${account.api.baseUrl}/try`);
    await page.fill('#key', account.apiKey);
  }
  const figure = async (id: string) => Number.parseFloat((await page.textContent(`#${id}`)) ?? '');
  /** Returns the content of a canvas of the page, as grey levels. */
  async function pixelsOf(id: string) {
    const url = String(await page.evaluate(`document.getElementById('${id}').toDataURL('image/png')`));
    const picture = sharp(Buffer.from(url.slice(url.indexOf(',') + 1), 'base64'));
    return picture.greyscale().raw().toBuffer({ resolveWithObject: true });
  }
  /** Starts a session, waits until `count` messages have come back, and stops. */
  async function streamUntil(count: number) {
    await page.click('#start');
    // The speed depends on the machine; the test only requires that more messages keep coming.
    for (let received = 0; received < count; ) {
      const before = received;
      const more = async () => {
        received = (await figure('received')) || 0;
        return received;
      };
      await expect.poll(more).toBeGreaterThan(before);
    }
    expect(await page.textContent('#status')).toMatch(/^Streaming, at most \d+ s, [\d.]+ USD/);
    await page.click('#stop');
    await expect.poll(() => page.textContent('#charged')).toContain('USD');
    expect(await page.textContent('#status')).toMatch(/^The session has ended/);
    expect(faults).toEqual([]);
  }

  test('voice: a microphone goes through, its delay is told, and the charge is that of usage', async () => {
    await open();
    await streamUntil(150);
    expect(await figure('delay-p50')).toBeGreaterThan(0);
    expect(await figure('sent')).toBeGreaterThanOrEqual(150);
    const usage = await account.api.get('/usage?limit=1');
    const [entry] = usage.body as unknown as { feature: string; status: string; charged_usd: number }[];
    expect(entry).toMatchObject({ feature: 'voice_swap', status: 'succeeded' });
    // At least 150 chunks of 20 ms were converted and charged.
    expect(entry?.charged_usd).toBeGreaterThan(0);
    expect(await figure('charged')).toBe(entry?.charged_usd);
  });

  test('voices are listed with their previews, and one is spoken with', async () => {
    await open();
    // Previews are made once there is an agent; a voice is listed when it has one.
    const listed = async () => {
      await page.click('#load-voices');
      await expect.poll(() => page.textContent('#status')).toMatch(/voices/);
      return page.locator('#voice option').count();
    };
    await expect.poll(listed, { timeout: 60_000, interval: 1_000 }).toBeGreaterThan(6);
    await page.selectOption('#voice', 'bass-narrator');
    const preview = await page.getAttribute('#preview audio', 'src');
    expect((await fetch(String(preview))).status).toBe(200);
    await streamUntil(100);
  });

  test('Live Swap Pro: a camera goes through and comes back another, with dropped pictures counted', async () => {
    await open();
    await page.check('input[value="full-live-swap"]');
    await streamUntil(40);
    const [sent, received, dropped] = await Promise.all(['sent', 'received', 'lost'].map(figure));
    expect(await figure('delay-p50')).toBeGreaterThan(0);
    expect((received ?? 0) + (dropped ?? 0)).toBeLessThanOrEqual(sent ?? 0);
    const { data: before, info } = await pixelsOf('before');
    const { data: after } = await pixelsOf('after');
    expect([info.width, info.height]).toEqual([640, 480]);
    expect(after.length).toBe(before.length);
    let changed = 0;
    for (let i = 0; i < after.length; i++) if (Math.abs((after[i] ?? 0) - (before[i] ?? 0)) > 20) changed++;
    // The face must be another, but not the whole picture.
    expect(changed / after.length).toBeGreaterThan(0.005);
    expect(changed / after.length).toBeLessThan(0.3);
  });

  test('a key that is none is told in words, and the page can be used again', async () => {
    await open();
    await page.fill('#key', 'sk_wrong');
    await page.click('#start');
    await page.waitForSelector('#status[data-state="failed"]');
    expect(await page.textContent('#status')).toMatch(/^unauthorized: /);
    expect(await page.isEnabled('#start')).toBe(true);
  });
});
