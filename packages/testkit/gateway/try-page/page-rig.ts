import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { launchBrowser } from '../../stack/browser.ts';
import { findBrowser } from '../../stack/programs.ts';
import { PICTURE_READY, VOICE_READY } from '../agent-double.ts';
import { TEST_KEY } from '../control-double.ts';
import { streamRig } from '../stream-rig.ts';

/**
 * The page in a real browser before a real gateway, whose control plane and agent do what a test says: for the tests of a
 * file, each with a page of its own, in which nothing may be thrown that nobody catches.
 */
export function pageRig() {
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
    await page.addInitScript({ path: join(import.meta.dirname, 'watch-page.js') });
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

  return {
    rig,
    /** That of the test which runs. */
    page: () => page,
    status,
    figure,
    isOpen,
    opened,
    choosePictures,
    chooseFile,
    startStreaming,
    expectOver,
    expectNoSession,
  };
}
