/** @module-tag browser */
import { join } from 'node:path';
import { axeFaults } from '@semblance/testkit/stack/axe';
import { launchBrowser } from '@semblance/testkit/stack/browser';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { findBrowser } from '@semblance/testkit/stack/programs';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';

/** The console in a real browser, with the whole running system. */
const program = findBrowser();
const PAGES = [
  '',
  'jobs',
  'batches',
  'live',
  'usage',
  'files',
  'webhooks',
  'webhooks/deliveries',
  'webhooks/secret',
  'keys',
  'browsers',
];

let stack: Stack;
let account: Account;
let origin: string;
let browser: Browser;
let context: BrowserContext;
let page: Page;
let faults: string[];
/** Jobs of the account: one that succeeded, one that failed. */
let done: string;
let failed: string;

beforeAll(async () => {
  if (!program) throw new Error('no Chromium on PATH: install one, or name it by SEMBLANCE_TEST_BROWSER');
  browser = await launchBrowser(program, {});
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 100 });
  origin = new URL(account.api.baseUrl).origin;
  const image_key = await account.api.upload(ASTRONAUT);
  const face_key = await account.api.upload(ADMIRAL);
  const blank = await account.api.upload(await faceless());
  done = (await account.api.swap({ image_key, face_key })).id;
  failed = (await account.api.swap({ image_key: blank, face_key })).id;
  await account.api.finished(done);
  await account.api.finished(failed);
  const item = { capability: 'face-swap-image', image_key, face_key };
  await account.api.post('/batches', { items: [item, item] });
  await account.api.post('/webhook-endpoints', { url: 'http://127.0.0.1:9/hook', events: ['job.succeeded'] });
}, 240_000);
afterAll(() => browser?.close());

beforeEach(() => open());
afterEach(async () => {
  await context.close();
  expect(faults).toEqual([]);
});

/** Opens a browser with nothing in it. The refusals of the API that a test provokes are no faults of a page. */
async function open(options: Parameters<Browser['newContext']>[0] = {}) {
  await context?.close();
  context = await browser.newContext({ locale: 'en-US', ...options });
  page = await context.newPage();
  faults = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  page.on('console', (line) => {
    if (line.type() === 'error' && !/status of 40[0-9]/.test(line.text())) faults.push(line.text());
  });
  page.on('request', (request) => {
    const url = new URL(request.url());
    if (url.origin !== origin && url.protocol !== 'blob:') faults.push(`a request to ${url.origin}`);
  });
}

async function signIn(path = '') {
  await page.goto(`${origin}/console/${path}`);
  await page.fill('input[type=password]', account.apiKey);
  await page.keyboard.press('Enter');
  await page.waitForSelector('nav');
}
const settled = async () => {
  await page.waitForSelector('h1');
  await expect.poll(() => page.evaluate("document.querySelector('[aria-busy=true]') === null")).toBe(true);
};

/** Returns where the picture of a page is kept, to be looked at after the run. */
function pictureOf(path: string, colorScheme: string, width: number): string {
  const name =
    path === `jobs/${done}` ? 'job' : path === `jobs/${failed}` ? 'failed-job' : path || 'overview';
  return join(root, 'test-out', 'console', `${colorScheme}-${width}`, `${name.replaceAll('/', '-')}.png`);
}

describe('signing in', () => {
  test('keeps nothing of the key in the browser, and the session lives over a reload', async () => {
    await signIn();
    await page.waitForSelector('text=Available');
    const kept = await page.evaluate(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href])',
    );
    expect(kept).not.toContain(account.apiKey.slice(8));
    expect(kept).not.toContain('con_');
    const [cookie] = await context.cookies();
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' });
    await page.reload();
    await page.waitForSelector('text=Available');
  });

  test('a wrong key is told in words, and the field says so to readers of screens', async () => {
    await page.goto(`${origin}/console`);
    await page.fill('input[type=password]', 'sk_live_wrong');
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=This key is not known');
    expect(await page.getAttribute('input[type=password]', 'aria-invalid')).toBe('true');
    expect(await axeFaults(page)).toEqual([]);
  });

  test('a session that ended asks to sign in again, and goes on where the reader was', async () => {
    await signIn('keys');
    await page.waitForSelector('text=Make a key');
    const { body } = await account.api.get('/console/sessions');
    for (const { session_id } of (body as { sessions: { session_id: string }[] }).sessions)
      await account.api.request('DELETE', `/console/sessions/${session_id}`);
    await page.click('nav >> text=Usage');
    await page.waitForSelector('text=Your session has ended');
    expect(await page.content()).not.toContain('sk_live_LJ');
    await page.fill('input[type=password]', account.apiKey);
    await page.keyboard.press('Enter');
    await page.waitForSelector('h1:has-text("Usage")');
  });

  test('signing out ends the session for good', async () => {
    await signIn();
    const cookies = await context.cookies();
    await page.click('[aria-label="Sign out"]');
    await page.waitForSelector('text=You are signed out.');
    await context.addCookies(cookies);
    await page.reload();
    await page.waitForSelector('input[type=password]');
  });
});

describe('each page', () => {
  test.each([
    ['light', 1280],
    ['dark', 1280],
    ['light', 390],
    ['dark', 390],
  ] as const)('has nothing that axe finds, and fits: %s, %i px', async (colorScheme, width) => {
    await open({ colorScheme, viewport: { width, height: 800 } });
    await page.goto(`${origin}/console`);
    await page.waitForSelector('input[type=password]');
    expect(await axeFaults(page)).toEqual([]);
    await signIn();
    for (const path of [...PAGES, `jobs/${done}`, `jobs/${failed}`, 'none']) {
      await page.goto(`${origin}/console/${path}`);
      await page.waitForSelector('nav', { state: 'attached' });
      await settled();
      expect(await axeFaults(page), `/console/${path}`).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth'), path).toBe(true);
      await page.screenshot({ path: pictureOf(path, colorScheme, width), fullPage: true });
    }
  });

  test('of an account without anything says what to do', async () => {
    const fresh = await stack.newAccount({ balanceUsd: 0 });
    await page.goto(`${origin}/console`);
    await page.fill('input[type=password]', fresh.apiKey);
    await page.keyboard.press('Enter');
    await page.waitForSelector('text=No jobs yet');
    await page.waitForSelector('text=Ask the owner of the service for a top-up');
    for (const [path, text] of [
      ['batches', 'No batches yet'],
      ['live', 'No live sessions yet'],
      ['usage', 'No calls in this time'],
      ['files', 'No file was deleted yet'],
      ['webhooks', 'No endpoints yet'],
      ['webhooks/deliveries', 'No deliveries yet'],
    ]) {
      await page.goto(`${origin}/console/${path}`);
      await page.waitForSelector(`text=${text}`);
    }
  });

  test('that cannot be loaded says so, and loads when it is asked again', async () => {
    await signIn();
    let fails = true;
    await page.route('**/api/v1/jobs?*', (route) =>
      fails
        ? route.fulfill({
            status: 403,
            json: { error: { code: 'forbidden', message: 'x', retryable: false } },
          })
        : route.continue(),
    );
    await page.goto(`${origin}/console/jobs`);
    await page.waitForSelector('text=This could not be loaded');
    expect(await axeFaults(page)).toEqual([]);
    fails = false;
    await page.click('text=Try again');
    await page.waitForSelector('table');
  });
});

test('a job shows its preview, its cost, and why it failed in plain words', async () => {
  await signIn(`jobs/${done}`);
  await page.waitForSelector('img.preview');
  expect(await page.evaluate("document.querySelector('img.preview').naturalWidth > 0")).toBe(true);
  await page.waitForSelector('text=Faces changed');
  await page.goto(`${origin}/console/jobs/${failed}`);
  await page.waitForSelector('text=Use a picture in which the face is large');
  await page.waitForSelector('text=Nothing was charged for it.');
});

test('by the keyboard alone: skip, walk, make a key, copy it, revoke it', async () => {
  await signIn();
  await page.waitForSelector('text=Available');
  const press = async (name: string, times = 1) => {
    for (let i = 0; i < times; i++) await page.keyboard.press(name);
  };
  const focused = () =>
    page.evaluate<string>(
      "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent",
    );
  /** Goes on to the element with this name. */
  const tabTo = async (name: string) => {
    for (let i = 0; i < 60; i++) {
      await press('Tab');
      if ((await focused()) === name) return;
    }
    throw new Error(`the keyboard does not reach ${name}`);
  };
  await page.evaluate('document.activeElement.blur()');
  await press('Tab');
  expect(await focused()).toBe('Skip to content');
  await tabTo('API keys');
  await press('Enter');
  await page.waitForSelector('h1:has-text("API keys")');
  await tabTo('Make a key');
  await press('Enter');
  await page.waitForSelector('[role=dialog]');
  await expect.poll(() => page.evaluate("document.activeElement.matches('[role=dialog] input')")).toBe(true);
  await page.keyboard.type('by keyboard');
  await press('Enter');
  await page.waitForSelector('text=Your new key');
  const key = (await page.textContent('.secret')) ?? '';
  expect(
    (await fetch(`${account.api.baseUrl}/balance`, { headers: { authorization: `Bearer ${key}` } })).status,
  ).toBe(200);
  await tabTo('I have copied it');
  await press('Enter');
  await page.waitForSelector('[role=dialog]', { state: 'detached' });
  expect(await page.content()).not.toContain(key);
  await tabTo('Revoke by keyboard');
  await press('Enter');
  await page.waitForSelector('text=Revoke by keyboard?');
  // A question that is left changes nothing.
  await press('Escape');
  await page.waitForSelector('[role=dialog]', { state: 'detached' });
  expect(await focused()).toBe('Revoke by keyboard');
  await press('Enter');
  await page.waitForSelector('[role=dialog]');
  await tabTo('Revoke');
  await press('Enter');
  await page.waitForSelector('text=The key is revoked.');
  expect(
    (await fetch(`${account.api.baseUrl}/balance`, { headers: { authorization: `Bearer ${key}` } })).status,
  ).toBe(401);
});

test('the signing secret is asked for when it is revealed, and rotated in two steps', async () => {
  const asked: string[] = [];
  page.on('request', (request) => asked.push(request.url()));
  await signIn('webhooks/secret');
  await page.waitForSelector('text=Reveal the secret');
  expect(asked.filter((url) => url.includes('webhook-secret'))).toEqual([]);
  await page.click('text=Reveal the secret');
  const first = (await page.textContent('.secret')) ?? '';
  expect(first).toMatch(/^whsec_/);
  await page.click('text=Make the next secret');
  await page.waitForSelector('text=Next secret');
  const next = (await page.locator('.secret').nth(1).textContent()) ?? '';
  await page.click('text=Finish the rotation');
  await page.click('[role=dialog] >> text=Finish the rotation');
  await page.waitForSelector('text=The rotation is finished.');
  await expect.poll(() => page.locator('.secret').allTextContents()).toEqual([next]);
});

test('times are in the reader’s zone, and UTC is told on hover', async () => {
  await open({ timezoneId: 'Asia/Tokyo' });
  await signIn('jobs');
  const time = page.locator('time').first();
  const iso = (await time.getAttribute('datetime')) ?? '';
  expect(await time.getAttribute('title')).toBe(`${iso.slice(0, 19).replace('T', ' ')} UTC`);
  const hour = new Intl.DateTimeFormat('en-US', { timeZone: 'Asia/Tokyo', timeStyle: 'short' }).format(
    new Date(iso),
  );
  expect(((await time.textContent()) ?? '').replace(/\s/g, ' ')).toContain(hour.replace(/\s/g, ' '));
});

test('usage is saved as CSV, each call of it', async () => {
  await signIn('usage');
  await page.waitForSelector('table');
  const [download] = await Promise.all([page.waitForEvent('download'), page.click('text=Download CSV')]);
  const chunks: Buffer[] = [];
  for await (const chunk of await download.createReadStream()) chunks.push(Buffer.from(chunk));
  const lines = Buffer.concat(chunks).toString().trimEnd().split('\r\n');
  expect(lines[0]).toBe('created_at,id,feature,status,charged_usd,reason');
  expect(lines.some((line) => line.includes(done))).toBe(true);
  expect(lines.length - 1).toBe(((await account.api.get('/usage?limit=500')).body as unknown[]).length);
});
