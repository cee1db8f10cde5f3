/** @module-tag browser */
import { TEST_KEY } from '@semblance/testkit/gateway/control-double';
import { startTestGateway, type TestGateway } from '@semblance/testkit/gateway/test-gateway';
import { launchBrowser } from '@semblance/testkit/stack/browser';
import { findBrowser } from '@semblance/testkit/stack/programs';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';

let t: TestGateway;
let browser: Browser;
beforeAll(async () => {
  const program = findBrowser();
  if (!program) throw new Error('no Chromium on PATH: install one, or name it by SEMBLANCE_TEST_BROWSER');
  t = await startTestGateway();
  browser = await launchBrowser(program, {});
});
afterAll(async () => {
  await browser?.close();
  await t?.close();
});

it('the page shows the document, and calls where it was loaded from, whatever the public address is', async () => {
  const page = await browser.newPage();
  const faults: string[] = [];
  page.on('pageerror', (error) => faults.push(String(error)));
  await page.goto(`${t.base}/docs`);
  await page.getByText('Read the prepaid balance and spend').click();
  await page.getByRole('button', { name: 'Authorize' }).first().click();
  await page.locator('.auth-container input').fill(TEST_KEY);
  await page.locator('.auth-container').getByRole('button', { name: 'Apply credentials' }).click();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Try it out' }).click();
  const asked = page.waitForRequest('**/balance');
  await page.getByRole('button', { name: 'Execute' }).click();
  expect((await asked).url()).toBe(`${t.base}/balance`);
  const answer = await (await asked).response();
  expect([answer?.status(), Object.keys(await answer?.json())[0]]).toEqual([200, 'balance_usd']);
  expect(faults).toEqual([]);
  await page.close();
});
