/**
 * `npm start`: runs all of Semblance in the foreground until Ctrl-C. With `--watch`, a service restarts when a source file that it depends on is saved.
 */

import { parseArgs } from 'node:util';
import { afterAbort } from '@semblance/common/async/abort';
import { handleFile } from './stack/handle.ts';
import { startStack } from './stack/stack.ts';
import { describeFailure, endOnSignal, eventPrinter, shown } from './stack/terminal.ts';
import { watchSources } from './stack/watch-sources.ts';
import { progressPrinter } from './toolchain/progress.ts';
import { findTool } from './toolchain/toolchain.ts';

const say = (line: string) => void process.stdout.write(`${line}\n`);
const ending = endOnSignal();
const { watch } = parseArgs({ options: { watch: { type: 'boolean', default: false } } }).values;
const OWN = ['control-plane', 'operator', 'gateway', 'gpu-agent'];

try {
  const startedAt = Date.now();
  const stack = await startStack({
    env: process.env,
    signal: ending,
    onEvent: eventPrinter(say),
    report: progressPrinter(process.stderr),
    say,
  });
  const { handle, settings } = stack;
  const file = shown(handleFile(settings.stateDir));
  const kubectl = (await findTool('kubectl', process.env))?.path ?? 'kubectl';
  say(`
Semblance is up after ${((Date.now() - startedAt) / 1000).toFixed(1)} s.

  API       ${handle.base_url}
  key       node -p 'require("${file.startsWith('/') ? file : `./${file}`}").api_key'
  live      ${handle.base_url}/try in a browser
  console   ${new URL('/console', handle.base_url)} in a browser, with the key
  jobs      ${kubectl} --kubeconfig ${shown(handle.kubeconfig)} -n ${handle.namespace} get renderjobs -w
  logs      ${shown(settings.stateDir)}/logs

Ctrl-C ends everything; what it holds stays for the next start.`);

  const unwatch = watch
    ? watchSources(OWN, (service, file) => stack.restart(service, `${file} was saved`))
    : undefined;
  await afterAbort(ending);
  unwatch?.();
  say('\nStopping.');
  await stack.stop();
  say('Stopped; nothing is left running.');
} catch (error) {
  if (ending.aborted) {
    say('Stopped before it was up; nothing is left running.');
  } else {
    process.stderr.write(`${describeFailure(error)}\n`);
    process.exitCode = 1;
  }
}
