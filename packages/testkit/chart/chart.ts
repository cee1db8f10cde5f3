import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { parse, parseAllDocuments } from 'yaml';

export const CHART = join(import.meta.dirname, '..', '..', '..', 'charts', 'semblance');
/** Version for which charts are rendered. A Helm built from its Go module assumes a very old Kubernetes. */
const KUBE_VERSION = '1.36.0';

/** Value files in ci/, and `plain` for an installation without values. */
export const VALUE_FILES = ['external', 'gpu', 'plain'] as const;
export type ValueFile = (typeof VALUE_FILES)[number];

type Json = { readonly [key: string]: unknown };
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
  };
  // biome-ignore lint/suspicious/noExplicitAny: manifests of many kinds, looked into by tests
  readonly [key: string]: any;
}

let helmPath: Promise<string> | undefined;

async function helmBinary(): Promise<string> {
  helmPath ??= process.env.HELM
    ? Promise.resolve(process.env.HELM)
    : resolveTools(['helm']).then((tools) => tools.helm);
  return helmPath;
}

/** Runs helm and returns its output. @throws with the text of standard error */
export async function helm(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<string> {
  const { stdout } = await promisify(execFile)(await helmBinary(), [...args], {
    env,
    maxBuffer: 1 << 26,
  });
  return stdout;
}

const fileArgs = (file: ValueFile | undefined) =>
  file ? ['--values', join(CHART, 'ci', `${file}.yaml`)] : [];
const setArgs = (sets: Json) =>
  Object.entries(sets).map(([name, value]) => `--set-json=${name}=${JSON.stringify(value)}`);

/** Renders the chart with the values of a file and further values by path. */
export async function render(
  file?: ValueFile,
  sets: Json = {},
  kubeVersion = KUBE_VERSION,
  namespace = 'apps',
): Promise<Manifest[]> {
  const where = ['--namespace', namespace, '--kube-version', kubeVersion];
  const text = await helm(['template', 'rel', CHART, ...where, ...fileArgs(file), ...setArgs(sets)]);
  return manifestsOf(text);
}

/** Returns the reason for which the chart refuses the values. */
export async function refusal(sets: Json, file?: ValueFile): Promise<string> {
  try {
    await render(file, sets);
  } catch (error) {
    return String((error as { stderr?: string }).stderr);
  }
  throw new Error('it was rendered');
}

export const lint = (file?: ValueFile) =>
  helm(['lint', '--strict', '--kube-version', KUBE_VERSION, CHART, ...fileArgs(file)]);

export function manifestsOf(text: string): Manifest[] {
  return parseAllDocuments(text).flatMap((document) => {
    if (document.errors.length > 0) throw document.errors[0];
    return (document.toJS() as Manifest | null) ?? [];
  });
}

export function find(manifests: readonly Manifest[], kind: string, name: string): Manifest {
  const found = manifests.find((each) => each.kind === kind && each.metadata.name === name);
  if (!found) throw new Error(`there is no ${kind} ${name}`);
  return found;
}

export const ofKind = (manifests: readonly Manifest[], kind: string) =>
  manifests.filter((each) => each.kind === kind);

/** Returns the AgentPools that the chart applies. */
export function poolsOf(manifests: readonly Manifest[]): Manifest[] {
  const files = find(manifests, 'ConfigMap', 'rel-semblance-pools').data as
    | Record<string, string>
    | undefined;
  return Object.values(files ?? {}).map((text) => parse(text) as Manifest);
}

/** Returns every Pod template of the manifests, with the object that creates it. */
export function podsOf(manifests: readonly Manifest[]): { from: string; template: Manifest }[] {
  return [...manifests, ...poolsOf(manifests)].flatMap((each) => {
    const from = `${each.kind} ${each.metadata.name}`;
    if (each.kind === 'Pod') return { from, template: each };
    const { template } = each.spec?.jobTemplate?.spec ?? each.spec ?? {};
    return template?.spec ? { from, template } : [];
  });
}

export const chartFile = (path: string) => readFile(join(CHART, path), 'utf8');
