/**
 * `npm run demo`: swaps a face between two photographs, through every part of the system.
 *
 *   --image FILE   the photograph that keeps everything but the face
 *   --face FILE    the photograph whose face it gets
 *   --out FOLDER   folder for the result and copies of both inputs
 *   --keep         leave the stack running afterwards, until Ctrl-C
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import { afterAbort } from '@semblance/common/async/abort';
import { photoSwap } from './demo/photo-swap.ts';
import { attachOrStart } from './demo/stack.ts';
import { stateFolder } from './stack/handle.ts';
import { describeFailure, endOnSignal, shown } from './stack/terminal.ts';
import { findTool } from './toolchain/toolchain.ts';

const say = (line: string) => void process.stdout.write(`${line}\n`);
const seconds = () => ((Date.now() - performance.timeOrigin) / 1000).toFixed(1);
const ending = endOnSignal();
const repository = new URL('../', import.meta.url);

let stop: (() => Promise<void>) | undefined;
try {
  const { values } = parseArgs({
    options: {
      image: { type: 'string' },
      face: { type: 'string' },
      out: { type: 'string' },
      keep: { type: 'boolean', default: false },
    },
  });
  const image = values.image ?? fileURLToPath(new URL('media/grace_hopper.jpg', repository));
  const face = values.face ?? fileURLToPath(new URL('media/astronaut.png', repository));
  for (const file of [image, face]) {
    // Checked first, so that a wrong path starts no stack.
    if (!existsSync(file))
      throw Object.assign(new Error(`there is no file ${file}`), { code: 'no_such_file' });
  }
  const stack = await attachOrStart({ env: process.env, signal: ending, say });
  stop = stack.stop;
  const { handle, stateDir } = stack;
  say(`Stack ready ${seconds()} s after the command.\n`);

  const file = await photoSwap({
    handle,
    image,
    face,
    folder: values.out ?? `${stateDir}/demo`,
    signal: ending,
    say,
  });
  say(`\nThe picture: ${shown(file.path)} (${seconds()} s after the command)`);

  const kubectl = (await findTool('kubectl', process.env))?.path ?? 'kubectl';
  const args = [
    '--kubeconfig',
    shown(handle.kubeconfig),
    '-n',
    handle.namespace,
    'get',
    'renderjob',
    file.jobId,
  ];
  say(`\n$ ${kubectl} ${args.join(' ')}`);
  say(await promisify(execFile)(kubectl, args).then((done) => done.stdout.trimEnd(), unavailable));

  if (stop && values.keep) {
    say('\nThe stack stays up (--keep) until Ctrl-C.');
    await afterAbort(ending);
  } else if (stop) {
    say('\nStopping the stack. `npm start` keeps one up; what this one holds is found again by the next.');
  }
} catch (error) {
  if (ending.aborted) say('Ended.');
  else {
    process.stderr.write(`\n${describeFailure(error)}\n`);
    if (stop)
      process.stderr.write(
        `The services' own words are in ${shown(join(stateFolder(process.env), 'logs'))}.\n`,
      );
  }
  process.exitCode = ending.aborted ? 130 : 1;
} finally {
  await stop?.();
}

function unavailable(error: Error & { code?: string; stderr?: string }): string {
  return error.code === 'ENOENT'
    ? '(there is no kubectl on PATH)'
    : (error.stderr ?? error.message).trimEnd();
}
