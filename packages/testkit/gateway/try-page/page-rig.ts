import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { launchBrowser } from '../../stack/browser.ts';
import { findBrowser } from '../../stack/programs.ts';
import { PICTURE_READY, VOICE_READY } from '../agent-double.ts';
import { TEST_KEY } from '../control-double.ts';
import { streamRig } from '../stream-rig.ts';

/**
 * Opens the try page in a real browser in front of a real gateway with a scripted control plane and agent. Each
 * test has a page of its own and fails on any uncaught error in it.
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
    await page.addInitScript({ path: join(import.meta.dirname, 'watch-page.js') });
    // Settles the session as soon as the page asks.
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
  /** Starts a session and waits for the first answer. */
  async function startStreaming() {
    await page.click('#start');
    await expect.poll(status).toMatch(/^Streaming/);
    await expect.poll(() => figure('received')).toBeGreaterThan(0);
  }
  /** Expects that the page can be used again, has released the browser's devices, and shows the reason. */
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
    /** Page of the running test. */
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
