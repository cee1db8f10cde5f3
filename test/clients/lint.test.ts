/** The document of a running stack, by the linters that readers of the API use, as they come. */
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { sharedStack } from '@semblance/testkit/stack/stack';
import spectral, { type RulesetDefinition } from '@stoplight/spectral-core';
import rulesets from '@stoplight/spectral-rulesets';
import { beforeAll, expect, it } from 'vitest';

let document: string;
beforeAll(async () => {
  const { api } = await (await sharedStack()).newAccount();
  document = await (await fetch(`${api.baseUrl}/openapi.json`)).text();
}, 240_000);

async function redocly(source: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'] });
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config });
  return problems.map(({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`);
}

async function spectralOas(source: string): Promise<string[]> {
  const linter = new spectral.Spectral();
  // Its own type lacks what a ruleset that extends none may leave out.
  linter.setRuleset({ extends: [rulesets.oas as unknown as RulesetDefinition] });
  const problems = await linter.run(JSON.parse(source));
  return problems.map(({ code, message, path }) => `${code}: ${message} (${path.join('/')})`);
}

it.each([
  ['redocly, ruleset `recommended`', redocly],
  ['spectral, ruleset `spectral:oas`', spectralOas],
])('%s finds nothing, and does find what is wrong', async (_name, lint) => {
  expect(await lint(document)).toEqual([]);
  const wrong = JSON.parse(document);
  delete wrong.paths['/balance'].get.operationId;
  wrong.components.schemas.Nowhere = { type: 'object' };
  expect((await lint(JSON.stringify(wrong))).length).toBeGreaterThanOrEqual(2);
});
