import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import type { Manifest } from './chart.ts';
import { type ModuleFiles, moduleFiles } from './module-files.ts';

const openApi = (version: string, sum: string): ModuleFiles => ({
  module: 'k8s.io/kubernetes',
  version,
  sum,
  folder: 'api/openapi-spec/v3',
  names: /^apis?__.*_openapi\.json$/,
});

/** Kubernetes minor releases for which the chart is checked, with the API schema that each publishes. */
export const KUBERNETES = {
  '1.34': openApi('v1.34.4', 'h1:Yy6R4QB8C9kJPp25GFqEvX5XQwY5qzKeqD0Xx6oAcmk='),
  '1.35': openApi('v1.35.4', 'h1:o/8dBC/pHVpYoGV4OAIytAlNPZbdYVTXJHoYvXC4qzM='),
  '1.36': openApi('v1.36.3', 'h1:qDQdoMiluAE2Eab6Fa52YV+WjiGz9mZFFoagEA6cI+o='),
} as const;
export type Minor = keyof typeof KUBERNETES;
export const MINORS = Object.keys(KUBERNETES) as Minor[];

/** CustomResourceDefinitions of other projects whose kinds the chart uses. */
export const FOREIGN_CRDS: readonly ModuleFiles[] = [
  {
    module: 'github.com/cert-manager/cert-manager',
    version: 'v1.21.2',
    sum: 'h1:UWgoYM+KLNtRlqmoWOKjKBOBUPVHeepQ6/ac3ERJW68=',
    folder: 'deploy/crds',
    names: /^cert-manager\.io_(certificates|issuers)\.yaml$/,
  },
  {
    module: 'sigs.k8s.io/gateway-api',
    version: 'v1.6.3',
    sum: 'h1:lKpJa5bGlraC/QeACvCpsHLdmO6y0iKfzVl6gzaFEYc=',
    folder: 'config/crd/standard',
    names: /^gateway\.networking\.k8s\.io_httproutes\.yaml$/,
  },
  {
    module: 'github.com/prometheus-operator/prometheus-operator',
    version: 'v0.85.0',
    sum: 'h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=',
    folder: 'example/prometheus-operator-crd',
    names: /^monitoring\.coreos\.com_(podmonitors|prometheusrules|servicemonitors)\.yaml$/,
  },
];

type Schema = {
  type?: string;
  properties?: Record<string, unknown>;
  additionalProperties?: unknown;
  'x-kubernetes-group-version-kind'?: { group: string; version: string; kind: string }[];
  'x-kubernetes-preserve-unknown-fields'?: boolean;
};
type Document = { components: { schemas: Record<string, Schema> } };

export type Validator = {
  /** Returns the faults of an object: unknown or missing fields, wrong types, wrong values. */
  faults(manifest: Manifest): Promise<string[]>;
};

/**
 * Creates a validator of Kubernetes' own kinds against the schemas of one minor release. It refuses unknown fields.
 */
export async function validatorOf(minor: Minor): Promise<Validator> {
  const folder = await moduleFiles(KUBERNETES[minor]);
  const groups = new Map<string, Promise<(kind: string) => ValidateFunction | undefined>>();
  return {
    async faults({ apiVersion, kind, ...manifest }) {
      const [version, group = ''] = apiVersion.split('/').reverse() as [string, string?];
      const name = group ? `apis__${group}__${version}` : `api__${version}`;
      let validators = groups.get(name);
      if (!validators) {
        validators = readGroup(join(folder, `${name}_openapi.json`), group, version);
        groups.set(name, validators);
      }
      const validate = (await validators)(kind);
      if (!validate) return [`Kubernetes ${minor} has no ${kind} of ${apiVersion}`];
      return validate({ apiVersion, kind, ...manifest }) ? [] : (validate.errors ?? []).map(textOf);
    },
  };
}

async function readGroup(file: string, group: string, version: string) {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return () => undefined;
  const { schemas } = (JSON.parse(text) as Document).components;
  for (const schema of Object.values(schemas))
    if (schema.properties && !schema['x-kubernetes-preserve-unknown-fields'])
      schema.additionalProperties ??= false;
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema({ $id: 'group', components: { schemas } });
  return (kind: string) => {
    const [name] =
      Object.entries(schemas).find(([, schema]) =>
        schema['x-kubernetes-group-version-kind']?.some(
          (each) => each.kind === kind && each.group === group && each.version === version,
        ),
      ) ?? [];
    return name === undefined ? undefined : ajv.getSchema(`group#/components/schemas/${name}`);
  };
}

const textOf = ({ instancePath, message, params }: ErrorObject) =>
  `${instancePath || '/'} ${message} ${JSON.stringify(params)}`;
