/**
 * Writes crds/gen/<plural>.ts: TypeScript types of every resource, from their only source, the schemas in
 * crds/*.yaml. Run by `npm run generate`; an argument names another output folder.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { compile, type JSONSchema } from 'json-schema-to-typescript';
import { parse } from 'yaml';

const here = import.meta.dirname;
const out = process.argv[2] ?? join(here, 'gen');

interface Crd {
  spec: {
    group: string;
    names: { kind: string; plural: string };
    versions: { name: string; storage: boolean; schema: { openAPIV3Schema: JSONSchema } }[];
  };
}

/**
 * Adds `additionalProperties: false` wherever properties are listed. Kubernetes implies this; JSON Schema does not.
 */
function closed(schema: JSONSchema): JSONSchema {
  const copy: JSONSchema = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key.startsWith('x-kubernetes')) continue;
    // These would make the compiler write useless tuple types of every length.
    if (key === 'maxItems' || key === 'minItems') continue;
    copy[key] = isSchema(value) ? closed(value) : value;
  }
  if (isSchema(schema.properties)) {
    copy.properties = Object.fromEntries(
      Object.entries(schema.properties).map(([name, property]) => [name, closed(property as JSONSchema)]),
    );
    copy.additionalProperties = false;
  }
  return copy;
}

function isSchema(value: unknown): value is JSONSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
for (const file of (await readdir(here)).filter((name) => name.endsWith('.yaml'))) {
  const crd = parse(await readFile(join(here, file), 'utf8')) as Crd;
  const { group, names, versions } = crd.spec;
  const version = versions.find(({ storage }) => storage);
  if (!version) throw new Error(`${file} has no storage version`);
  const schema = closed(version.schema.openAPIV3Schema);
  const properties = schema.properties as Record<string, JSONSchema>;
  const parts = [];
  for (const part of ['spec', 'status']) {
    const options = { bannerComment: '', additionalProperties: false, format: false };
    parts.push(
      await compile(properties[part] ?? {}, `${names.kind}${part === 'spec' ? 'Spec' : 'Status'}`, options),
    );
  }
  const text = `// Generated from crds/${file} by crds/generate.ts.
import type { ObjectMeta, ResourceDescriptor } from '@semblance/common/kube/resources';

${parts.join('\n')}
export interface ${names.kind} {
  apiVersion: '${group}/${version.name}';
  kind: '${names.kind}';
  metadata: ObjectMeta;
  spec: ${names.kind}Spec;
  status?: ${names.kind}Status;
}

export const ${names.kind.toUpperCase()}_RESOURCE: ResourceDescriptor<${names.kind}> = {
  group: '${group}',
  version: '${version.name}',
  plural: '${names.plural}',
  kind: '${names.kind}',
};
`;
  await writeFile(join(out, file.replace('.yaml', '.ts')), text);
}
