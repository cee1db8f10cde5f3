import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run, succeeds } from '@semblance/common/process/run';
import {
  BUILT_AT,
  type BuilderContext,
  PULL_MS,
  requestArgs,
  type UnlockedBuilder,
} from './builder-contract.ts';

export function dockerBuilder({ env: outer, signal, cold }: BuilderContext): UnlockedBuilder {
  const env = { ...outer, DOCKER_BUILDKIT: '1', SOURCE_DATE_EPOCH: String(BUILT_AT) };
  const docker = (args: string[], onLine?: (line: string) => void) =>
    run('docker', args, { env, signal, ...(onLine ? { onLine } : {}) });
  return {
    name: 'docker',
    async build(request, onLine) {
      const { image, context, containerfile } = request;
      await docker(
        [
          ...['build', '--file', containerfile, '--tag', image, ...(cold ? ['--no-cache'] : [])],
          ...requestArgs(request),
          context,
        ],
        onLine,
      );
    },
    async obtainable(image) {
      return (
        (await succeeds('docker', ['image', 'inspect', image], { env, signal })) ||
        succeeds('docker', ['pull', image], { env, signal, timeoutMs: PULL_MS })
      );
    },
    async size(image) {
      return Number(await docker(['image', 'inspect', '--format', '{{.Size}}', image]));
    },
    async id(image) {
      return (await docker(['image', 'inspect', '--format', '{{.Id}}', image])).trim();
    },
    async baseDigest(image) {
      const text = await docker(['image', 'inspect', '--format', '{{json .RepoDigests}}', image]);
      return (JSON.parse(text) as string[] | null)?.[0]?.replace(/^.*@/, '');
    },
    readFile: (image, path) =>
      docker(['run', '--rm', '--network=none', '--entrypoint=/bin/cat', image, path]),
    async layers(image) {
      return JSON.parse(await docker(['image', 'inspect', '--format', '{{json .RootFS.Layers}}', image]));
    },
    async save(images, folder) {
      mkdirSync(folder, { recursive: true });
      const archive = join(folder, 'images.tar');
      await docker(['save', '--output', archive, ...images]);
      return [archive];
    },
    async close() {},
  };
}
