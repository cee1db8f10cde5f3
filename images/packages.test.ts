import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { GATEWAY_FLAGS } from '@semblance/gateway/node-flags';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { expect, it } from 'vitest';
import { closure, workspaces } from '../test/structure/workspaces.ts';

const containerfile = readFileSync(join(import.meta.dirname, 'Containerfile'), 'utf8');
const all = workspaces();

/** Returns the lines of one stage of the Containerfile. */
function stage(name: string): string {
  const [, text] = new RegExp(` AS ${name}\\n([^]*?)(?=\\nFROM |$)`).exec(containerfile) ?? [];
  return text ?? '';
}

it.each([
  { image: 'semblance', packages: 'service-packages', services: ['gateway', 'control-plane', 'operator'] },
  { image: 'semblance-agent', packages: 'agent-packages', services: ['gpu-agent'] },
])(
  '$image has its services and the workspaces that they stand on, and no others',
  ({ image, packages, services }) => {
    const installed = [...stage(packages).matchAll(/--workspace=(\S+)/g)].map(([, name]) => name);
    expect(installed).toEqual(services);
    const wanted = closure(
      services.map((service) => `@semblance/${service}`),
      all,
    ).map(({ folder }) => folder);
    const folders = new Set(all.map(({ folder }) => folder));
    const copied = [...stage(image).matchAll(/^COPY (?:--from=\S+ )?(\S+) (\S+)$/gm)]
      .map(([, , target = '']) => target)
      .filter((target) => folders.has(target));
    expect([...new Set(copied)].sort()).toEqual(wanted.sort());
  },
);

// npm puts a package below the workspace that needs another version of it than the top has.
it.each([
  { image: 'semblance', from: 'service-packages' },
  { image: 'semblance-agent', from: 'agent-modules' },
])('$image also has the packages that are below a workspace', ({ image, from }) => {
  expect(stage(image).split('\n')).toContain(`COPY --from=${from} /build/nested ./`);
});

it.each([
  ['gateway', GATEWAY_FLAGS],
  ['gpu-agent', AGENT_FLAGS],
])('%s runs with its flags', (service, flags) => {
  const commands = [...containerfile.matchAll(/^CMD (\["node"[^\]]*\])$/gm)].map(
    ([, json = '']) => JSON.parse(json.replace(/\\\n/g, '')) as string[],
  );
  const main = `${service}/main.ts`;
  expect(commands.filter((command) => command.includes(main))).toEqual([['node', ...flags, main]]);
});
