import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Page } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

/** Returns what axe finds wrong on a page by WCAG 2.2, levels A and AA: each rule with the elements. */
export async function axeFaults(page: Page): Promise<string[]> {
  // By the debugger, which the policy of the page does not bind.
  await page.evaluate(AXE);
  return page.evaluate(`(async () => {
    const { violations } = await axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => id + ': ' + html.slice(0, 160) + ' ' + (any[0]?.message ?? '')));
  })()`);
}
